//! Over real sockets, against the engine model in both dialects.

use crate::{driver, fake, sglang, url, vllm};
use acb_live::Clock;
use acb_live::drivers::{
    AdapterFile, CanaryError, Driver, DriverError, Pin, Probe, RawRow, RuntimeKind, SwapFinding, Watch,
    WatchSink,
};
use acb_routing::RouterEvent;
use acb_types::{AdapterRole, Adapters, ServerRow, Source};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(20);

fn file(name: &'static str, pin: Pin) -> AdapterFile<'static> {
    AdapterFile { name, path: "/adapters/c", pin }
}

async fn names(driver: &Driver) -> Vec<String> {
    driver.models().await.unwrap().adapters.into_iter().map(|listed| listed.name).collect()
}

#[tokio::test]
async fn both_dialects_are_ready_listed_and_known_by_version() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        let models = driver.ready(SOON).await.unwrap();
        assert_eq!(models.base, ["base"]);
        assert_eq!(names(&driver).await, ["a", "b"]);
        let fingerprint = driver.fingerprint().await.unwrap();
        assert!(fingerprint.simulated && fingerprint.version.is_some(), "{fingerprint:?}");
        assert!(!fingerprint.flags.is_empty());
    }
}

#[tokio::test]
async fn a_wrong_model_is_named_with_what_is_listed() {
    let (server, _) = fake(vllm());
    let driver =
        Driver::new(RuntimeKind::Vllm, acb_live::Target::parse(&url(&server)).unwrap(), "other").unwrap();
    let error = driver.ready(SOON).await.unwrap_err().to_string();
    assert!(error.contains("`other`") && error.contains("`base`"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_ready_within_the_deadline() {
    let (server, driver) = fake(vllm());
    drop(server);
    let error = driver.ready(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, DriverError::NotReady { .. }), "{error}");
}

#[tokio::test]
async fn adapters_are_loaded_answer_and_are_unloaded() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        driver.load(&file("c", Pin::Evictable)).await.unwrap();
        assert!(names(&driver).await.contains(&"c".to_owned()));
        let probe = Probe { adapter: Some("c"), prompt: "one two", max_tokens: 4 };
        assert!(!driver.probe(&probe).await.unwrap().text.is_empty());
        let twice = driver.load(&file("c", Pin::Evictable)).await.unwrap_err();
        assert!(matches!(twice, DriverError::Refused { status: 400, .. }), "{twice}");
        driver.unload("c").await.unwrap();
        assert!(!names(&driver).await.contains(&"c".to_owned()));
        assert!(driver.unload("c").await.is_err());
    }
}

#[tokio::test]
async fn only_sglang_pins_and_the_others_say_so() {
    let (_server, driver) = fake(sglang());
    driver.load(&file("c", Pin::Pinned)).await.unwrap();
    let (_server, driver) = fake(vllm());
    let error = driver.load(&file("c", Pin::Pinned)).await.unwrap_err();
    assert!(matches!(error, DriverError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn a_reset_is_proved_by_what_is_cached_before_and_after() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        let proof = driver.reset_cache().await.unwrap();
        assert!(proof.before > 100 && proof.after == 0, "{proof:?}");
    }
}

#[tokio::test]
async fn the_canary_hears_base_and_each_adapter() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        let report = driver.canary(&["a", "b"]).await.unwrap();
        assert_eq!(report.adapters.len(), 2);
        assert_eq!(driver.canary(&["a", "b"]).await.unwrap().check_against(&report), Ok(()));
        let mut other = report.clone();
        other.adapters.get_mut("b").unwrap()[1].push('!');
        assert!(matches!(report.check_against(&other), Err(CanaryError::NotAsRecorded { .. })));
    }
}

#[tokio::test]
async fn a_bare_name_that_sglang_answers_from_base_kills_the_canary_with_the_name_to_use() {
    let (server, _) = fake(sglang());
    for wrong in [RuntimeKind::Vllm, RuntimeKind::Openai] {
        let driver = driver(wrong, &url(&server));
        let error = driver.canary(&["a"]).await.unwrap_err();
        assert!(matches!(error, CanaryError::SilentBase { .. }), "{error}");
        assert!(error.to_string().contains("`base:a`"), "{error}");
    }
}

#[tokio::test]
async fn an_adapter_that_is_not_loaded_kills_the_canary() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        let error = driver.canary(&["a", "missing"]).await.unwrap_err();
        assert!(matches!(error, CanaryError::Driver(DriverError::NoSuchAdapter { .. })), "{error}");
    }
}

#[tokio::test]
async fn the_swap_check_finds_vllms_old_kv_and_none_on_sglang() {
    for (spec, finding) in [(vllm(), SwapFinding::NameAndPath), (sglang(), SwapFinding::EachLoad)] {
        let (_server, driver) = fake(spec);
        let report = driver.check_hot_swap("/adapters/swap").await.unwrap();
        assert_eq!((report.finding, report.after > 0), (finding, finding == SwapFinding::NameAndPath));
        assert!(report.before > 0);
        assert_eq!(names(&driver).await, ["a", "b"]);
    }
}

#[derive(Default)]
struct Kept {
    rows: Vec<ServerRow>,
    raw: usize,
    room: Option<usize>,
}

impl WatchSink for Kept {
    fn row(&mut self, row: &ServerRow) -> io::Result<()> {
        if self.room == Some(self.rows.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.rows.push(row.clone());
        Ok(())
    }

    fn raw(&mut self, row: &RawRow<'_>) -> io::Result<()> {
        self.raw += usize::from(row.path == "/metrics" && !row.body.is_empty());
        Ok(())
    }
}

fn watch(driver: &Arc<Driver>, events: Option<mpsc::UnboundedSender<RouterEvent>>) -> Watch {
    let catalogue = ["a", "b"].map(|name| (name.to_owned(), 8, 1, AdapterRole::Placebo));
    Watch {
        drivers: vec![driver.clone()],
        adapters: Arc::new(Adapters::new(catalogue).unwrap()),
        clock: Clock::start(),
        interval: Duration::from_millis(20),
        events,
    }
}

#[tokio::test]
async fn the_server_record_counts_what_its_window_brought_and_no_more() {
    for spec in [vllm(), sglang()] {
        let (_server, driver) = fake(spec);
        let driver = Arc::new(driver);
        let ask = |prompt: &'static str, max_tokens| {
            let driver = driver.clone();
            async move { driver.probe(&Probe { adapter: Some("a"), prompt, max_tokens }).await.unwrap() }
        };
        ask("before the window", 50).await;
        let (send, mut events) = mpsc::unbounded_channel();
        let mut sink = Kept::default();
        let window = watch(&driver, Some(send));
        let drained = async {
            // The first look is the begin of the window.
            events.recv().await.unwrap();
            ask("in the window there are so many words", 7).await;
        };
        let end = window.run(&mut sink, drained).await.unwrap();
        let (first, last) = (sink.rows.first().unwrap(), sink.rows.last().unwrap());
        assert_eq!(first.counters.decode_tokens, Some(0));
        assert_eq!(last.counters.decode_tokens, Some(7));
        assert_eq!((last.running, last.queued, last.source), (Some(0), Some(0), Source::Simulated));
        assert_eq!(end.replicas[0].looks, sink.rows.len() as u64);
        assert_eq!(sink.raw as u64, end.replicas[0].looks);
        assert_eq!((end.replicas[0].failed, end.replicas[0].restarts), (0, 0));
        let generated = end.series.iter().filter(|row| row.name.ends_with(":generation_tokens_total"));
        assert_eq!(generated.filter_map(|row| row.increase).sum::<f64>(), 7.0);
        assert!(sink.rows.windows(2).all(|rows| rows[0].at_ns <= rows[1].at_ns));
    }
}

#[tokio::test]
async fn a_router_is_told_what_is_told_and_nothing_is_made_up() {
    let (_server, driver) = fake(sglang());
    let adapters = Adapters::default();
    let seen = driver.scrape().await.unwrap().state.snapshot(&adapters);
    assert_eq!((seen.running, seen.queued, seen.pending_prefill_tokens), (Some(0), Some(0), Some(0)));
    assert!(seen.free_kv_tokens.unwrap() > 0);
    assert_eq!((seen.gpu_adapters, seen.active_adapters), (None, None));
    let (_server, driver) = fake(vllm());
    let seen = driver.scrape().await.unwrap().state.snapshot(&adapters);
    assert_eq!((seen.running, seen.pending_prefill_tokens, seen.gpu_adapters), (Some(0), None, None));
}

#[tokio::test]
async fn servers_that_die_are_counted_and_a_full_disk_ends_the_watch() {
    let (server, driver) = fake(vllm());
    let driver = Arc::new(driver);
    let mut sink = Kept { room: Some(2), ..Kept::default() };
    let error = watch(&driver, None).run(&mut sink, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    drop(server);
    let mut sink = Kept::default();
    let end =
        watch(&driver, None).run(&mut sink, tokio::time::sleep(Duration::from_millis(50))).await.unwrap();
    assert!(end.replicas[0].failed > 0 && end.replicas[0].looks == 0);
    assert!(matches!(end.replicas[0].first_failure, Some(DriverError::NoAnswer { .. })));
}
