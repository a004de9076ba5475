//! Rows on their way to disk: a thread that writes, a bounded queue before it, and no row that is lost in silence.
//!
//! The thread is woken for a batch of rows or after a while, not for each row: to wake it costs the thread that receives more
//! than everything else that it does about a row.

use crate::cpu::thread_cpu;
use acb_types::Nanos;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rows that may wait, and as many that are being written: some megabytes.
const QUEUE: usize = 2048;
/// Rows for which the writer is woken.
const BATCH: usize = 256;
/// How long rows wait for more of them.
const PATIENCE: Duration = Duration::from_millis(50);

/// Takes rows of one kind to where they are kept.
pub(crate) struct Recorder<R, K> {
    last: LastRow<R>,
    writer: JoinHandle<Written<K>>,
}

/// The end that rows are handed to. Cheap to clone.
pub(crate) struct Pen<R>(Arc<Tray<R>>);

impl<R> Clone for Pen<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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

/// What pens and writer share.
struct Tray<R> {
    queue: Mutex<Queue<R>>,
    /// A batch is there, or no row comes any more.
    batch: Condvar,
    /// The queue was emptied.
    room: Condvar,
    failed: AtomicBool,
    waits: AtomicU64,
}

struct Queue<R> {
    rows: Vec<R>,
    closed: bool,
    /// Whether the writer has ended, in whatever way.
    abandoned: bool,
}

/// Whether more rows may come.
#[derive(PartialEq, Eq)]
enum More {
    MayCome,
    Never,
}

impl<R: Send + 'static, K: Send + 'static> Recorder<R, K> {
    /// Starts the thread; `write` puts one row into the sink.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(sink: K, write: fn(&mut K, R) -> io::Result<()>) -> io::Result<Self> {
        let queue = Mutex::new(Queue { rows: Vec::new(), closed: false, abandoned: false });
        let (batch, room) = (Condvar::new(), Condvar::new());
        let tray = Tray { queue, batch, room, failed: AtomicBool::new(false), waits: AtomicU64::new(0) };
        let tray = Arc::new(tray);
        let at = WritersPlace(Arc::clone(&tray));
        let thread = std::thread::Builder::new().name("acb-recorder".to_owned());
        let writer = thread.spawn(move || drain(&at.0, sink, write))?;
        Ok(Self { last: LastRow(tray), writer })
    }

    pub fn pen(&self) -> Pen<R> {
        Pen(Arc::clone(&self.last.0))
    }

    /// Waits until every row is written. Nobody may write any more.
    pub fn finish(self) -> Written<K> {
        let Self { last, writer } = self;
        let tray = Arc::clone(&last.0);
        drop(last);
        let mut written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.waits = tray.waits.load(Ordering::SeqCst);
        written
    }
}

impl<R> Pen<R> {
    /// Hands a row over; waits, and counts it, when the writer is behind.
    pub fn write(&self, row: R) {
        let tray = &*self.0;
        let mut queue = tray.lock();
        if queue.rows.len() >= QUEUE {
            tray.waits.fetch_add(1, Ordering::SeqCst);
            while queue.rows.len() >= QUEUE && !queue.abandoned {
                queue = tray.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        assert!(!queue.closed && !queue.abandoned, "the writer runs until the last row");
        queue.rows.push(row);
        let rows = queue.rows.len();
        drop(queue);
        // A writer that is not asleep looks at the queue before it sleeps.
        if rows == BATCH {
            tray.batch.notify_one();
        }
    }

    /// Whether a write has failed: what comes now is lost.
    pub fn failed(&self) -> bool {
        self.0.failed.load(Ordering::SeqCst)
    }
}

impl<R> Tray<R> {
    fn lock(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all rows that wait into `batch`, which is empty, when they are enough, have waited long, or are the last.
    fn take(&self, batch: &mut Vec<R>) -> More {
        let mut queue = self.lock();
        while queue.rows.len() < BATCH && !queue.closed {
            let waited = self.batch.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            if waited.1.timed_out() {
                break;
            }
        }
        mem::swap(&mut queue.rows, batch);
        let more = if queue.closed { More::Never } else { More::MayCome };
        drop(queue);
        self.room.notify_all();
        more
    }
}

/// Held by the recorder: when it goes, no row comes any more.
struct LastRow<R>(Arc<Tray<R>>);

impl<R> Drop for LastRow<R> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.batch.notify_one();
    }
}

/// Held by the writer: when it goes, by a sink's panic too, nobody waits for room.
struct WritersPlace<R>(Arc<Tray<R>>);

impl<R> Drop for WritersPlace<R> {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.room.notify_all();
    }
}

fn drain<R, K>(tray: &Tray<R>, mut sink: K, write: fn(&mut K, R) -> io::Result<()>) -> Written<K> {
    let before = thread_cpu();
    let (mut error, mut lost) = (None, 0);
    let mut batch = Vec::new();
    loop {
        let more = tray.take(&mut batch);
        for row in batch.drain(..) {
            if error.is_some() {
                lost += 1;
            } else if let Err(fault) = write(&mut sink, row) {
                error = Some(fault);
                lost += 1;
                tray.failed.store(true, Ordering::SeqCst);
            }
        }
        if more == More::Never {
            return Written { sink, error, lost, waits: 0, cpu: thread_cpu().since(before) };
        }
    }
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
        // The queue, the batch that is being written, and the row that waits.
        assert!(most <= 2 * QUEUE as u64 + 1, "{most} rows were alive at once");
    }

    #[test]
    fn a_row_alone_is_written_without_another_to_wake_the_writer() {
        let (told, written) = std::sync::mpsc::channel();
        let recorder = Recorder::start(told, |told: &mut std::sync::mpsc::Sender<u64>, row| {
            told.send(row).map_err(io::Error::other)
        });
        let recorder = recorder.unwrap();
        recorder.pen().write(7);
        assert_eq!(written.recv(), Ok(7));
        assert_eq!(recorder.finish().lost, 0);
    }

    #[test]
    fn a_sink_that_panics_ends_those_who_wait_for_it() {
        let recorder = Recorder::start((), |(): &mut (), _row: u64| panic!("a bug of the sink")).unwrap();
        let pen = recorder.pen();
        let writing = std::thread::spawn(move || (0..u64::MAX).for_each(|row| pen.write(row)));
        assert!(writing.join().is_err(), "it would write for ever");
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| recorder.finish())).is_err());
    }
}
