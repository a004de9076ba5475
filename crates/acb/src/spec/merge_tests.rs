use super::*;

fn tree(sources: &mut Sources, text: &str) -> Node {
    let id = sources.add("x.yaml", text);
    parse(sources, id, 0).expect("valid YAML")
}

fn merged(base: &str, over: &str) -> serde_json::Value {
    let mut sources = Sources::default();
    let base = tree(&mut sources, base);
    merge(base, tree(&mut sources, over)).to_json()
}

fn after(text: &str, argument: &str) -> Result<serde_json::Value, String> {
    let mut sources = Sources::default();
    let mut tree = tree(&mut sources, text);
    match set(&mut sources, &mut tree, argument) {
        Ok(()) => Ok(tree.to_json()),
        Err(faults) => Err(format!("{}: {}", sources.place(faults[0].span), faults[0].message)),
    }
}

#[test]
fn maps_merge_and_everything_else_is_replaced() {
    let json = merged("a: {x: 1, y: [1, 2]}\nb: 1", "a: {y: [3], z: 4}");
    assert_eq!(json, serde_json::json!({"a": {"x": 1, "y": [3], "z": 4}, "b": 1}));
}

#[test]
fn a_changed_kind_drops_the_keys_of_the_old_kind() {
    let json = merged("p: {kind: hash, bound: 2}", "p: {kind: random}");
    assert_eq!(json, serde_json::json!({"p": {"kind": "random"}}));
    let json = merged("p: {law: zipf, s: 2}", "p: {law: uniform}");
    assert_eq!(json, serde_json::json!({"p": {"law": "uniform"}}));
    let json = merged("p: {kind: hash, bound: 2}", "p: {kind: hash, seed: 1}");
    assert_eq!(json, serde_json::json!({"p": {"kind": "hash", "bound": 2, "seed": 1}}));
}

#[test]
fn a_set_argument_reaches_items_by_index_or_name_and_keys_with_dots_by_quotes() {
    let text = "arms: [{name: a, policy: random}, {name: b}]\nfactors: {}";
    let json = after(text, "arms.b.policy={kind: hash, bound: 2}").expect("valid");
    assert_eq!(json["arms"][1]["policy"]["bound"], 2);
    assert_eq!(
        after(text, "arms.0.policy.bound=2").expect("valid")["arms"][0]["policy"],
        serde_json::json!({"": "random", "bound": 2})
    );
    let json = after(text, "factors.\"workload.rate\"=[1, 2]").expect("valid");
    assert_eq!(json["factors"]["workload.rate"], serde_json::json!([1, 2]));
    assert_eq!(after(text, "new.deep=x=y").expect("valid")["new"]["deep"], "x=y");
}

#[test]
fn a_set_argument_that_selects_nothing_says_what_there_is() {
    let text = "arms: [{name: a}, {name: b}]\nempty: []";
    let error = |argument: &str| after(text, argument).expect_err("a fault");
    assert!(
        error("arms.c.policy=1")
            .starts_with("--set:1:6: `c` selects nothing: give an index from 0 to 1, or one of `a`, `b`")
    );
    assert!(error("arms.2=1").contains("`2` selects nothing"));
    assert!(error("empty.0=1").contains("the list is empty"));
    assert!(error("arms").contains("has no `=`"));
    assert!(error("a..b=1").contains("empty or padded name"));
    assert!(error("a=[1").starts_with("--set:1:"));
    assert!(error("a=.nan").starts_with("--set:1:3: `.nan` is not a finite number"));
}

#[test]
fn a_dotted_path_becomes_a_pointer() {
    let mut sources = Sources::default();
    let tree = tree(&mut sources, "arms: [{name: a}, {name: b}]");
    assert_eq!(pointer(&tree, "arms.b.policy"), Ok("/arms/1/policy".to_string()));
    assert_eq!(pointer(&tree, "x.\"y/z.w\""), Ok("/x/y~1z.w".to_string()));
    assert!(pointer(&tree, "arms.c").is_err());
}
