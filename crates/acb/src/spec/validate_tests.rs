use super::*;
use crate::spec::Sources;
use crate::spec::parse::parse;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sample {
    #[schemars(regex(pattern = "^[a-z]+$"))]
    name: String,
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
    count: Option<u32>,
    #[serde(default)]
    small: u8,
    #[serde(default)]
    flag: bool,
    role: Option<Role>,
    policy: Option<Policy>,
    items: Option<Items>,
    #[schemars(length(min = 1))]
    #[serde(default)]
    tags: Vec<String>,
    pair: Option<(f64, u32)>,
    #[serde(default)]
    weights: BTreeMap<String, f64>,
    runtime: Option<Runtime>,
    store: Option<Store>,
}

/// Roles.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Role {
    /// One.
    Baseline,
    /// Two.
    Treatment,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Policy {
    Random,
    RoundRobin { start: Option<u32> },
    Hash { bound: f64 },
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Items {
    List(Vec<Item>),
    Generated(Generated),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    rank: u32,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Generated {
    count: u32,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Runtime {
    Simulated,
    Server(Item),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Store {
    Blocks(u64),
    Memory(Item),
}

fn read(text: &str) -> Result<Sample, Vec<String>> {
    let mut sources = Sources::default();
    let id = sources.add("x.yaml", text);
    let mut tree = parse(&sources, id, 0).expect("valid YAML");
    let schema = schema_for!(Sample).to_value();
    let faults = validate(&schema, &mut tree);
    if faults.is_empty() {
        return Ok(serde_json::from_value(tree.to_json()).expect("what the schema takes, serde takes"));
    }
    let line = |fault: &Fault| {
        let help = fault.help.as_deref().unwrap_or_default();
        let place = sources.position(fault.span);
        format!("{}:{}: {}; {help}", place.line, place.column, fault.message)
    };
    Err(faults.iter().map(line).collect())
}

const GOOD: &str = "name: a\nshare: 1\n";

fn check(extra: &str, expected: &str) {
    let faults = read(&format!("{GOOD}{extra}")).expect_err("a fault");
    assert_eq!(faults, [expected], "{extra}");
}

#[test]
fn a_good_file_passes_with_an_integer_where_a_float_is_asked_for() {
    assert_eq!(read(GOOD).expect("valid").share, 1.0);
    assert!(read(&format!("{GOOD}count: ~\nrole: ~\nruntime: simulated\npair: [1, 2]\n")).is_ok());
}

#[test]
fn a_variant_that_needs_only_its_tag_may_be_text() {
    let policy = |text: &str| read(&format!("{GOOD}policy: {text}\n")).expect("valid").policy;
    assert_eq!(policy("random"), Some(Policy::Random));
    assert_eq!(policy("round_robin"), Some(Policy::RoundRobin { start: None }));
    assert_eq!(policy("{kind: hash, bound: 2}"), Some(Policy::Hash { bound: 2.0 }));
    check(
        "policy: hash\n",
        "3:9: `policy` `hash` also needs `bound`; write a map with `kind: hash` and these keys",
    );
    check(
        "policy: randm\n",
        "3:9: `policy` can't be `randm`; did you mean `random`? Valid are `random`, `round_robin`, `hash`",
    );
}

#[test]
fn of_a_tagged_variant_only_the_faults_of_its_branch_are_reported() {
    check(
        "policy: {kind: hash, bonud: 2, bound: 1}\n",
        "3:22: unknown key `policy.bonud`; did you mean `bound`? Known are `bound`, `kind`",
    );
    check("policy: {kind: hash}\n", "3:1: `policy` has no `bound`; give a number");
    check(
        "policy: {kind: nope}\n",
        "3:16: `policy.kind` can't be `nope`; valid are `random`, `round_robin`, `hash`",
    );
    check("policy: {bound: 1}\n", "3:1: `policy` has no `kind`; give one of `random`, `round_robin`, `hash`");
    check("policy: 3\n", "3:9: `policy` must be a map, not `3`; ");
}

#[test]
fn wrong_types_name_the_remedy() {
    check(
        "count: 3.0\n",
        "3:8: `count` must be an integer at least 0, not `3.0`; write `3` without a fraction",
    );
    check(
        "count: 1_000\n",
        "3:8: `count` must be an integer at least 0, not `1_000`; write `1000` without quotes or underscores",
    );
    check(
        "count: 12 ms\n",
        "3:8: `count` must be an integer at least 0, not `12 ms`; write `12` alone: the unit is part of the key's name",
    );
    check(
        "count: nan\n",
        "3:8: `count` must be an integer at least 0, not `nan`; only finite numbers are valid",
    );
    check("count: 4294967296\n", "3:8: `count` is too large for uint32: `4294967296`; ");
    check("count: -1\n", "3:8: `count` must be an integer at least 0, not `-1`; ");
    check("small: 256\n", "3:8: `small` must be an integer from 0 to 255, not `256`; ");
    check(
        "small:\n",
        "3:6: `small` is empty: it must be an integer from 0 to 255; give a value; a key with a default may be left out",
    );
    check(
        "flag: yes\n",
        "3:7: `flag` must be true or false, not `yes`; write `true`: in YAML 1.2 only true and false are truth values",
    );
    check(
        "role: tretment\n",
        "3:7: `role` can't be `tretment`; did you mean `treatment`? Valid are `baseline`, `treatment`",
    );
    check("role: [x]\n", "3:1: `role` must be one of `baseline`, `treatment`, not a list of 1; ");
    check("tags: []\n", "3:1: `tags` must have at least 1 items, not 0; ");
    check("tags: [1]\n", "3:8: `tags.0` must be text, not `1`; quote it if it is meant as text");
    check("pair: [1]\n", "3:1: `pair` must have exactly 2 items, not 1; ");
    check("pair: [1, x]\n", "3:11: `pair.1` must be an integer at least 0, not `x`; ");
    check("weights: {a.b: x}\n", "3:16: `weights.\"a.b\"` must be a number, not `x`; ");
}

#[test]
fn of_an_untagged_union_the_branch_that_was_meant_is_reported() {
    check("items: [{rank: x}]\n", "3:16: `items.0.rank` must be an integer at least 0, not `x`; ");
    check("items: {count: x}\n", "3:16: `items.count` must be an integer at least 0, not `x`; ");
    check("items: 3\n", "3:8: `items` must be a list or a map, not `3`; ");
    check(
        "runtime: {server: {rnk: 1, rank: 2}}\n",
        "3:20: unknown key `runtime.server.rnk`; did you mean `rank`? Known are `rank`",
    );
    check(
        "runtime: simulatd\n",
        "3:10: `runtime` can't be `simulatd`; did you mean `simulated`? Valid are `simulated`",
    );
}

#[test]
fn all_faults_are_found_in_one_pass() {
    let faults = read("name: A\nshare: 1.5\nconut: 3\ntags: [1, 2]\n").expect_err("five faults");
    assert_eq!(faults.len(), 5, "{faults:#?}");
    assert!(
        faults
            .iter()
            .any(|fault| fault.starts_with("1:7: `name` must be text that matches ^[a-z]+$, not `A`"))
    );
    assert!(
        faults.iter().any(|fault| fault.starts_with("2:8: `share` must be a number from 0 to 1, not `1.5`"))
    );
}

#[test]
fn a_map_is_asked_for_at_the_root() {
    assert_eq!(read("3").expect_err("a fault"), ["1:1: the experiment must be a map, not `3`; "]);
}
