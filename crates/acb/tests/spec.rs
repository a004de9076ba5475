//! Experiment files through the front door: bad ones are refused at the right place with the right words.

use acb::spec::{ExperimentSpec, Faults, Report, check};
use proptest::prelude::*;
use std::path::PathBuf;

const GOOD: &str = include_str!("spec/good.yaml");
const METRICS: [&str; 3] = ["quality_adjusted_slo_goodput", "slo_attainment", "ttft_p99_ms"];

/// All faults of a text: those of the text and the schema, or else those across fields.
fn faults(text: &str) -> Option<Faults> {
    match ExperimentSpec::from_text("x.yaml", text) {
        Ok((spec, located)) => located.faults(check(&spec, &METRICS)),
        Err(faults) => Some(faults),
    }
}

/// A change of the good file: what is replaced, by what, the place of the fault, and words of its message.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

fn check_rows(rows: &[Row]) {
    let wrong: Vec<_> = rows.iter().filter_map(misreported).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn misreported((old, new, place, words): &Row) -> Option<String> {
    assert!(GOOD.contains(old), "{old:?} is not in the good file");
    let shown = faults(&GOOD.replacen(old, new, 1)).map(|faults| faults.to_string()).unwrap_or_default();
    let matches = |line: &str| {
        line.starts_with(&format!("x.yaml:{place}: ")) && words.iter().all(|word| line.contains(word))
    };
    (!shown.lines().any(matches)).then(|| format!("{new:?}: expected {place} {words:?}, found\n{shown}"))
}

#[test]
fn the_good_file_has_no_fault() {
    let found = faults(GOOD);
    assert!(found.is_none(), "{}", found.map(|faults| faults.to_string()).unwrap_or_default());
}

#[test]
fn what_servers_can_not_be_or_do_is_refused_in_its_place() {
    let on = |runtime: &str| -> &'static str { format!("runtime: {runtime}\nbudget:").leak() };
    let standing = on("{kind: vllm, replicas: [\"http://a\"]}");
    let started = on("{kind: sglang, command: [serve, {port}], ports: [1, 2, 3]}"
        .replace("{port}", "'{port}'")
        .as_str());
    check_rows(&[
        (
            "budget:",
            standing,
            "37:23",
            &["runtime.replicas has 1 URLs", "cluster.replicas is 2", "one for each replica"],
        ),
        (
            "budget:",
            standing,
            "29:3",
            &["`cluster.engine.max_loras` belongs to the servers", "one sweep for each"],
        ),
        ("budget:", started, "37:53", &["runtime.ports has 3 ports", "cluster.replicas is 2"]),
        ("budget:", on("vllm"), "37:1", &["no servers", "`replicas`", "`command`"]),
        ("budget:", on("{kind: vllm, replicas: [a, b]}"), "37:34", &["`a` is no URL", "http://HOST:PORT"]),
        ("budget:", on("{kind: vllm, command: [serve]}"), "37:23", &["no word holds `{port}`"]),
        (
            "budget:",
            on("{kind: openai, replicas: [unix:a, unix:b]}"),
            "37:1",
            &["`openai`", "`other_prompts`"],
        ),
        (
            "budget:",
            on("{kind: vllm, api: chat, replicas: [unix:a, unix:b]}"),
            "37:1",
            &["a chat message is text", "`words`"],
        ),
    ]);
}

#[test]
fn what_the_schema_forbids_is_refused_in_its_place() {
    check_rows(&[
        ("name: slots", "name: Slots", "1:7", &["`name`", "matches", "`Slots`"]),
        ("name: slots", "name: ../up", "1:7", &["`name`", "matches"]),
        ("name: slots\n", "", "1:1", &["has no `name`", "text"]),
        ("name: slots", "name:", "1:5", &["`name` is empty", "text"]),
        ("name: slots", "name: 12", "1:7", &["must be text", "`12`", "quote it"]),
        ("question:", "qestion:", "2:1", &["unknown key `qestion`", "did you mean `question`?"]),
        (
            "policy: cache_static",
            "policy: cache_sttic",
            "5:13",
            &["did you mean `cache_static`?", "`round_robin`"],
        ),
        (
            "{kind: specialists}",
            "{kind: specialist}",
            "7:20",
            &["`arms.1.policy.kind`", "did you mean `specialists`?"],
        ),
        (
            "{kind: specialists}",
            "{sort: specialists}",
            "7:5",
            &["`arms.1.policy` has no `kind`", "`specialists`"],
        ),
        ("{kind: specialists}", "{kind: specialists, ttft_sgma: 1}", "7:33", &["did you mean `ttft_sigma`?"]),
        ("{kind: specialists}", "[specialists]", "7:5", &["`arms.1.policy` must be a map", "a list of 1"]),
        ("rank: 16}", "rank: 0}", "10:22", &["`adapters.0.rank`", "from 1 to 65536", "`0`"]),
        ("rank: 16}", "rank: -16}", "10:22", &["from 1 to 65536", "`-16`"]),
        ("rank: 16}", "rank: 16.0}", "10:22", &["an integer", "without a fraction"]),
        ("rank: 16}", "rank: \"16\"}", "10:22", &["an integer", "without quotes"]),
        ("{name: qa, rank: 16}", "{rank: 16}", "10:5", &["`adapters.0` has no `name`"]),
        ("{name: qa, rank: 16}", "qa", "10:5", &["`adapters.0` must be a map", "`qa`"]),
        ("role: multitask", "role: multi", "14:11", &["did you mean `multitask`?", "`placebo`"]),
        ("model: qwen2.5-7b", "model: qwen-7b", "15:8", &["did you mean `qwen2.5-7b`?", "`llama-3.1-8b`"]),
        ("model: qwen2.5-7b", "model: {layers: 28}", "15:1", &["`model` has no `hidden`", "an integer"]),
        ("model: qwen2.5-7b", "model: 7", "15:8", &["one of `qwen2.5-7b`", "or a map", "`7`"]),
        ("requests: 120", "requests: 0", "18:13", &["`workload.requests`", "from 1", "`0`"]),
        ("requests: 120", "requests: 1_000", "18:13", &["write `1000` without quotes or underscores"]),
        ("requests: 120", "requests: 12 k", "18:13", &["write `12` alone"]),
        ("kind: shared_doc_qa", "kind: shared_doc", "17:9", &["did you mean `shared_doc_qa`?"]),
        ("kind: poisson", "kind: normal", "19:20", &["valid are", "`gamma`"]),
        ("rate_rps: 5}", "rate: 5}", "19:29", &["unknown key `workload.arrivals.rate`", "`rate_rps`"]),
        ("rate_rps: 5}", "rate_rps: fast}", "19:39", &["`workload.arrivals.rate_rps`", "a number", "`fast`"]),
        ("rate_rps: 5}", "rate_rps: nan}", "19:39", &["only finite numbers"]),
        ("rate_rps: 5}", "rate_rps: .nan}", "19:39", &["not a finite number"]),
        ("replicas: 2", "replicas: -2", "21:13", &["`cluster.replicas`", "from 1 to 4096", "`-2`"]),
        ("replicas: 2", "replicas: 0", "21:13", &["from 1 to 4096"]),
        ("replicas: 2", "replicas: 5000000000", "21:13", &["from 1 to 4096"]),
        ("max_loras: 2,", "max_lora: 2,", "22:24", &["did you mean `max_loras`?"]),
        ("kv: {blocks: 4096}", "kv: {block: 4096}", "23:8", &["did you mean `blocks`?", "`memory`"]),
        ("kv: {blocks: 4096}", "kv: {}", "23:3", &["must have one key, not 0", "`blocks`, `memory`"]),
        ("base: 0.2", "base: 1.2", "26:35", &["`quality.source.base`", "from 0 to 1", "`1.2`"]),
        ("kind: synthetic, base: 0.2", "kind: table", "26:3", &["`quality.source` has no `file`"]),
        ("seeds: [1, 2, 3]", "seeds: {first: 1}", "30:1", &["`seeds` has no `count`"]),
        ("seeds: [1, 2, 3]", "seeds: 3", "30:8", &["a list", "or a map", "`3`"]),
        ("seeds: [1, 2, 3]", "seeds: [1, x]", "30:12", &["`seeds.1`", "an integer"]),
        ("ttft_ms: 200", "ttft_ms: 0", "31:16", &["above 0", "`0`"]),
        ("ttft_ms: 200", "ttft: 200", "31:7", &["did you mean `ttft_ms`?"]),
        ("slo: {ttft_ms: 200}", "slo: 200", "31:6", &["`slo` must be a map"]),
        ("against: [static]", "against: []", "36:25", &["at least 1 items"]),
        ("max_runs: 100", "max_runs: 0", "38:13", &["at least 1"]),
        ("[5, 10.5]", "[[5], 10.5]", "28:32", &["true or false or a number or text", "a list of 1"]),
        ("[5, 10.5]", "5", "28:31", &["must be a list", "`5`"]),
    ]);
}

#[test]
fn what_contradicts_another_field_is_refused_in_its_place() {
    check_rows(&[
        ("name: live", "name: static", "6:11", &["the arm `static` is already item 0"]),
        ("[qa, json]", "[qa, jsn]", "8:20", &["no adapter is named `jsn`", "did you mean `json`?"]),
        ("[qa, json]", "[qa, qa]", "8:20", &["`qa` is offered twice"]),
        ("[qa, json]", "[qa, json]\n    role: placebo", "8:5", &["is offered `qa`", "role placebo only"]),
        ("name: live", "name: static-again", "6:11", &["the arm that is run twice"]),
        (
            "{kind: specialists}",
            "{kind: specialists, ttft_sigma: -1}",
            "7:45",
            &["`ttft_sigma` of `specialists`", "`-1`"],
        ),
        ("name: json", "name: qa", "11:12", &["the adapter `qa` is already item 0"]),
        ("name: json", "name: base", "11:12", &["`base` means the base model"]),
        ("bytes: 80740352", "task: qa", "11:34", &["both specialists for one task"]),
        (
            "policy: cache_static",
            "policy: multitask\n    adapters: [qa]",
            "5:5",
            &["needs an adapter of role multitask"],
        ),
        ("model: qwen2.5-7b", "model: llama-3.1-8b", "15:8", &["131072 KV bytes per token", "57344"]),
        ("profile: qwen2.5-7b-l4", "profile: h900", "24:12", &["no profile \"h900\"", "qwen2.5-7b-l4"]),
        ("max_loras: 2,", "max_loras: 2, context_tokens: 100,", "16:1", &["exceed the context of 100"]),
        (
            "workload.arrivals.rate_rps: [",
            "workload.arrivals.rate: [",
            "28:28",
            &["unknown key", "`rate_rps`"],
        ),
        ("workload.arrivals.rate_rps: [", "workload.kind.x: [", "28:21", &["`workload.kind`"]),
        ("workload.arrivals.rate_rps: [", "arms.0.name: [", "28:3", &["can't be varied", "`policy`"]),
        ("[5, 10.5]", "[]", "28:3", &["has no values"]),
        ("[5, 10.5]", "[5, 5]", "28:35", &["5 is given twice"]),
        ("[5, 10.5]", "[5, slow]", "28:35", &["a number", "`slow`"]),
        ("[1, 2]", "[1, 0]", "29:33", &["with this value, cluster.engine.max_loras", "turns LoRA off"]),
        (
            "[1, 2]",
            "[1, 4]\n  cluster.engine.max_cpu_loras: [2, 4]",
            "29:33",
            &[
                "with cluster.engine.max_cpu_loras = 2 and cluster.engine.max_loras = 4",
                "2 is below max_loras 4",
            ],
        ),
        ("[1, 2]", "[1, 2.5]", "29:33", &["an integer", "`2.5`"]),
        ("seeds: [1, 2, 3]", "seeds: []", "30:1", &["no seeds", "one per block"]),
        ("seeds: [1, 2, 3]", "seeds: [1, 2, 1]", "30:15", &["the seed 1 is given twice"]),
        ("seeds: [1, 2, 3]", "seeds: {first: 18446744073709551615, count: 2}", "30:16", &["exceed 64 bits"]),
        ("slo: {ttft_ms: 200}", "slo: {}", "31:1", &["at least one of `ttft_ms`"]),
        (
            "_goodput",
            "_godput",
            "32:17",
            &["no metric is named", "did you mean `quality_adjusted_slo_goodput`?"],
        ),
        ("[ttft_p99_ms]", "[ttft_p99_ms, ttft_p99_ms]", "33:34", &["already named"]),
        ("treatment: live", "treatment: love", "36:19", &["no arm is named `love`", "did you mean `live`?"]),
        ("against: [static]", "against: [static, dynamic]", "36:43", &["no arm is named `dynamic`"]),
        ("against: [static]", "against: [live]", "36:35", &["can't be compared with itself"]),
        (
            "  contrasts:\n    - {treatment: live, against: [static]}",
            "  contrasts: []",
            "34:1",
            &["nothing would be compared"],
        ),
        ("budget:", "aa: {kind: arm, name: nobody}\nbudget:", "37:23", &["no arm is named `nobody`"]),
    ]);
}

#[test]
fn generated_adapters_need_one_source_of_ranks() {
    let generate = |rule: &str| {
        let start = GOOD.find("adapters:\n  - {name: qa").expect("in the good file");
        let end = GOOD.find("model:").expect("in the good file");
        let text = format!("{}adapters: {{generate: {rule}}}\n{}", &GOOD[..start], &GOOD[end..]);
        faults(&text.replace("    adapters: [qa, json]\n", "").replace("shared_doc_qa", "multi_lora"))
    };
    let shown = |rule: &str| generate(rule).expect("a fault").to_string();
    assert!(generate("{count: 4, ranks: [8, 16]}").is_none());
    assert!(shown("{count: 4}").contains("give either `rank` or `ranks`"));
    assert!(shown("{count: 4, rank: 8, ranks: [8]}").contains("give either `rank` or `ranks`"));
    assert!(shown("{count: 0, rank: 8}").contains("from 1 to 1000000"));
}

fn write(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

fn load(files: &[PathBuf], sets: &[&str]) -> Result<ExperimentSpec, String> {
    let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
    ExperimentSpec::load(None, files, &sets).map(|(spec, _)| spec).map_err(|faults| faults.to_string())
}

#[test]
fn files_that_are_no_experiment_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let check = |name: &str, bytes: &[u8], expected: &str| {
        let shown = load(&[write(&folder, name, bytes)], &[]).expect_err("a fault");
        assert!(shown.contains(&format!("{name}{expected}")), "{name}: {shown}");
    };
    check("empty.yaml", b"", ":1:1: the text is empty");
    check("latin1.yaml", b"name: a\nquestion: caf\xe9\n", ":2:14: the byte 0xe9 is not UTF-8");
    check("huge.yaml", &vec![b'#'; (4 << 20) + 1], ":1:1: is larger than 4194304 bytes");
    check("null.yaml", b"\0\0\0", ":1:1: ");
    let missing = load(&[folder.path().join("missing.yaml")], &[]).expect_err("a fault");
    assert!(missing.contains("missing.yaml:1:1: can't be read"), "{missing}");
    assert!(load(&[folder.path().to_path_buf()], &[]).expect_err("a fault").contains("can't be read"));
}

#[test]
fn later_files_and_arguments_win_and_keep_their_own_places() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let base = write(&folder, "base.yaml", GOOD.as_bytes());
    let more = write(&folder, "more.yaml", b"workload:\n  requests: 7\nseeds: [9]\n");
    let spec = load(&[base.clone(), more], &["workload.arrivals.rate_rps=2.5", "arms.live.prior=flat"])
        .expect("valid");
    assert_eq!((spec.workload.requests, spec.seeds.list()), (7, vec![9]));
    assert_eq!(serde_json::to_value(&spec).expect("valid")["arms"][1]["prior"], "flat");
    let bad = write(&folder, "bad.yaml", b"workload:\n  requests: x\n");
    let shown = load(&[base, bad], &["cluster.replicas=many", "slo.ttft=1"]).expect_err("three faults");
    for expected in
        ["bad.yaml:2:13: `workload.requests`", "--set:1:18: `cluster.replicas`", "--set:1:5: unknown key"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn a_short_form_grows_when_an_argument_sets_a_parameter() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = GOOD.replace("{kind: specialists}", "specialists");
    let file = write(&folder, "short.yaml", text.as_bytes());
    let spec = load(&[file], &["arms.live.policy.ttft_sigma=0.5"]).expect("valid");
    assert_eq!(serde_json::to_value(&spec).expect("valid")["arms"][1]["policy"]["ttft_sigma"], 0.5);
}

#[test]
fn the_resolved_file_is_complete_and_reads_back_as_the_same_experiment() {
    let (spec, _) = ExperimentSpec::from_text("x.yaml", GOOD).expect("valid");
    let yaml = spec.resolved_yaml();
    let (again, located) = ExperimentSpec::from_text("config_resolved.yaml", &yaml).expect("valid");
    assert_eq!(again, spec);
    assert_eq!(again.resolved_yaml(), yaml);
    assert!(located.faults(check(&again, &METRICS)).is_none());
    assert!(yaml.contains("max_num_batched_tokens: 2048"), "{yaml}");
}

#[test]
fn a_factor_changes_one_value_and_is_checked() {
    let (spec, _) = ExperimentSpec::from_text("x.yaml", GOOD).expect("valid");
    let varied = spec.with_factor("cluster.engine.max_loras", &4.into()).expect("valid");
    assert_eq!(varied.cluster.vllm().max_loras, 4);
    let named = spec.with_factor("adapters.qa.rank", &8.into()).expect("valid");
    assert_eq!(named.adapters.list(&named.model.shape())[0].rank, 8);
    let refused = spec.with_factor("cluster.engine.max_loras", &"many".into()).expect_err("a fault");
    assert_eq!(refused[0].0, "/cluster/engine/max_loras");
}

const FAULTY: &str = "name: Slots
question: Which?
arms:
  - {name: a, policy: randm}
  - {name: b, policy: {kind: power_of_two, choices: 3}}
adapters: [{name: qa, rank: 16.0}]
model: qwen2.5-7b
workload: {kind: shared_doc_qa, requests: -1}
cluster: {kv: {blocks: 4096}, profile: qwen2.5-7b-l4}
seeds: [1]
slo: {ttft_ms: 1 s}
";

#[test]
fn all_faults_are_reported_at_once_one_line_each() {
    insta::assert_snapshot!("plain", faults(FAULTY).expect("faults").to_string());
}

#[test]
fn each_fault_is_shown_in_its_source() {
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none()).with_width(100);
    let report = |text: &str| {
        let mut shown = String::new();
        let report = Report::from(faults(text).expect("faults"));
        handler.render_report(&mut shown, &report).expect("a string takes everything");
        shown
    };
    insta::assert_snapshot!("graphical", report(FAULTY));
    let across = GOOD.replace("[qa, json]", "[qa, jsn]").replace("[5, 10.5]", "[5, slow]");
    insta::assert_snapshot!("across_fields", report(&across));
}

#[test]
fn of_very_many_faults_the_first_are_shown_and_the_rest_counted() {
    let text: String = (0..400).map(|n| format!("k{n}: 1, ")).collect();
    let found = faults(&format!("{{{text}}}")).expect("faults");
    assert_eq!(found.rows().len(), 100);
    assert!(found.to_string().ends_with("more faults"), "{found}");
    let shown = format!("{:?}", miette::Report::new(Report::from(found)));
    assert!(shown.len() < 100_000, "a line of {} bytes is shown with each fault", text.len());
}

#[test]
fn faults_are_data_too() {
    let found = faults(FAULTY).expect("faults");
    let rows = serde_json::to_value(found.rows()).expect("valid");
    assert_eq!(
        (&rows[0]["file"], &rows[0]["line"], &rows[0]["column"]),
        (&"x.yaml".into(), &1.into(), &7.into())
    );
    assert_eq!(rows[0]["pointer"], "/name");
}

#[test]
fn the_editors_schema_documents_every_field_and_takes_short_forms() {
    let schema = ExperimentSpec::schema();
    let properties = schema["properties"].as_object().expect("a map");
    for (name, property) in properties {
        assert!(property["description"].is_string(), "{name} has no description");
    }
    let policy = schema["$defs"]["PolicySpec"]["oneOf"].as_array().expect("a union");
    assert!(
        policy
            .iter()
            .any(|branch| branch["enum"].as_array().is_some_and(|names| names.contains(&"random".into())))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}|[\\[\\]{}:,&*!|>'\"#\\-\n\t a-c0-9.~]{0,200}") {
        let _ = faults(&text).map(|faults| faults.to_string());
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = faults(&String::from_utf8_lossy(&bytes)).map(|faults| faults.to_string());
    }

    #[test]
    fn mutations_of_a_good_file_never_panic(
        at in 0..GOOD.len(), cut in 0usize..20, insert in "[\\[\\]{}:,&*!|>'\"#\\-\n\t a-c0-9.~é]{0,6}"
    ) {
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{insert}{}", &GOOD[..at], &GOOD[end..]);
        let shown = faults(&text).map(|faults| format!("{:?}", miette::Report::new(Report::from(faults))));
        if let Some(shown) = shown {
            prop_assert!(shown.contains("fault"));
        }
    }

    #[test]
    fn swapped_values_of_a_good_file_never_panic(from in 0..40usize, to in 0..40usize) {
        let values: Vec<_> = GOOD.split_inclusive(&[' ', '\n'][..]).collect();
        let mut swapped = values.clone();
        swapped.swap(from % values.len(), to % values.len());
        let _ = faults(&swapped.concat()).map(|faults| faults.to_string());
    }
}
