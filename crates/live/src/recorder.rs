//! Rows on their way to disk: a thread that writes, a bounded queue before it, and no row that is lost in silence.

use crate::cpu::thread_cpu;
use acb_types::Nanos;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Rows that may wait: some megabytes.
const QUEUE: usize = 4096;

/// Takes rows of one kind to where they are kept.
pub(crate) struct Recorder<R, K> {
    pen: Pen<R>,
    writer: JoinHandle<Written<K>>,
}

/// The end that rows are handed to. Cheap to clone.
pub(crate) struct Pen<R> {
    rows: SyncSender<R>,
    waits: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl<R> Clone for Pen<R> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), waits: Arc::clone(&self.waits), failed: Arc::clone(&self.failed) }
    }
}

/// What a recorder leaves.
pub(crate) struct Written<K> {
    pub sink: K,
    /// The first write that failed.
    pub error: Option<io::Error>,
    /// Rows that came after it.
    pub lost: u64,
    /// Rows that found the queue full.
    pub waits: u64,
    pub cpu: Nanos,
}

impl<R: Send + 'static, K: Send + 'static> Recorder<R, K> {
    /// Starts the thread; `write` puts one row into the sink.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(sink: K, write: fn(&mut K, R) -> io::Result<()>) -> io::Result<Self> {
        let (rows, queue) = sync_channel(QUEUE);
        let pen = Pen { rows, waits: Arc::default(), failed: Arc::default() };
        let failed = Arc::clone(&pen.failed);
        let thread = std::thread::Builder::new().name("acb-recorder".to_owned());
        let writer = thread.spawn(move || drain(&queue, sink, write, &failed))?;
        Ok(Self { pen, writer })
    }

    pub fn pen(&self) -> Pen<R> {
        self.pen.clone()
    }

    /// Waits until every row is written. Every other pen must be gone.
    pub fn finish(self) -> Written<K> {
        let Self { pen, writer } = self;
        let waits = Arc::clone(&pen.waits);
        drop(pen);
        let mut written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.waits = waits.load(Ordering::SeqCst);
        written
    }
}

impl<R> Pen<R> {
    /// Hands a row over; waits, and counts it, when the writer is behind.
    pub fn write(&self, row: R) {
        match self.rows.try_send(row) {
            Ok(()) => {}
            Err(TrySendError::Full(row)) => {
                self.waits.fetch_add(1, Ordering::SeqCst);
                self.rows.send(row).expect("the writer runs until every pen is gone");
            }
            Err(TrySendError::Disconnected(_)) => unreachable!("the writer runs until every pen is gone"),
        }
    }

    /// Whether a write has failed: what comes now is lost.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

fn drain<R, K>(
    queue: &Receiver<R>,
    mut sink: K,
    write: fn(&mut K, R) -> io::Result<()>,
    failed: &AtomicBool,
) -> Written<K> {
    let before = thread_cpu();
    let (mut error, mut lost) = (None, 0);
    while let Ok(row) = queue.recv() {
        if error.is_some() {
            lost += 1;
            continue;
        }
        if let Err(fault) = write(&mut sink, row) {
            error = Some(fault);
            lost += 1;
            failed.store(true, Ordering::SeqCst);
        }
    }
    Written { sink, error, lost, waits: 0, cpu: thread_cpu().since(before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_written_in_order_and_a_full_queue_waits() {
        let recorder = Recorder::start(Vec::new(), |kept: &mut Vec<u64>, row| {
            kept.push(row);
            Ok(())
        });
        let recorder = recorder.unwrap();
        let pen = recorder.pen();
        (0..50_000).for_each(|row| pen.write(row));
        drop(pen);
        let written = recorder.finish();
        assert!(written.sink.iter().copied().eq(0..50_000), "{} rows", written.sink.len());
        assert!(written.error.is_none() && written.lost == 0);
    }

    #[test]
    fn a_full_disk_keeps_what_was_written_and_counts_what_was_not() {
        let recorder = Recorder::start(Vec::new(), |kept: &mut Vec<u64>, row| {
            if row == 7 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            kept.push(row);
            Ok(())
        });
        let recorder = recorder.unwrap();
        let pen = recorder.pen();
        (0..10).for_each(|row| pen.write(row));
        drop(pen);
        let written = recorder.finish();
        assert_eq!(written.sink, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(written.error.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        assert_eq!(written.lost, 3);
    }

    /// A row that counts how many of its kind are alive.
    struct Counted(Arc<AtomicU64>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn however_many_rows_there_are_only_a_queue_of_them_is_in_memory() {
        let recorder = Recorder::start(0u64, |written: &mut u64, _row: Counted| {
            *written += 1;
            Ok(())
        });
        let (recorder, alive) = (recorder.unwrap(), Arc::new(AtomicU64::new(0)));
        let (pen, mut most) = (recorder.pen(), 0);
        for _ in 0..100_000 {
            most = most.max(alive.fetch_add(1, Ordering::SeqCst) + 1);
            pen.write(Counted(Arc::clone(&alive)));
        }
        drop(pen);
        assert_eq!(recorder.finish().sink, 100_000);
        // The queue, the row that is being written, and the one that waits.
        assert!(most <= QUEUE as u64 + 2, "{most} rows were alive at once");
    }
}
