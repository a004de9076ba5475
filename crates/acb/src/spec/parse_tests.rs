use super::*;

fn read(text: &str) -> Result<Node, Vec<String>> {
    let mut sources = Sources::default();
    let id = sources.add("x.yaml", text);
    parse(&sources, id, 0).map_err(|faults| {
        faults.iter().map(|fault| format!("{}: {}", sources.place(fault.span), fault.message)).collect()
    })
}

fn check(text: &str, place: &str, words: &str) {
    let faults = read(text).expect_err("the text has a fault");
    let expected = |fault: &String| fault.starts_with(&format!("x.yaml:{place}: ")) && fault.contains(words);
    assert!(faults.iter().any(expected), "expected {place} {words:?}\nfound {faults:#?}");
}

#[test]
fn every_value_knows_where_it_was_written() {
    let text = "é: ü\nb:\n  - x: 1\n    y: [2, q]\nc: |\n  text\n";
    let tree = read(text).expect("valid");
    let mut sources = Sources::default();
    sources.add("x.yaml", text);
    for (pointer, place) in
        [("/é", (1, 4)), ("/b", (2, 1)), ("/b/0", (3, 5)), ("/b/0/x", (3, 8)), ("/b/0/y/1", (4, 12))]
    {
        let found = sources.position(tree.nearest(pointer));
        assert_eq!((found.line, found.column), place, "{pointer}");
    }
    assert_eq!(tree.get("c").and_then(Node::text), Some("text\n"));
}

#[test]
fn what_makes_a_file_mean_something_else_than_it_seems_to_is_refused() {
    check("", "1:1", "the text is empty");
    check("# only a comment\n", "1:1", "the text is empty");
    check("---\n", "1:1", "the text is empty");
    check("a: 1\nb: 2\na: 3\n", "3:1", "`a` is already given in line 1");
    check("a: &x 1\n", "1:4", "anchors");
    check("a: &x 1\nb: *x\n", "2:4", "aliases");
    check("a: &x {b: 1}\nc:\n  <<: *x\n", "3:3", "merge keys");
    check("a: !!str 1\n", "1:4", "tags");
    check("a: 1\n---\nb: 2\n", "2:1", "second document");
    check("1: a\n", "1:1", "the key `1` is not text");
    check("true: a\n", "1:1", "the key `true` is not text");
    check("\"\": a\n", "1:1", "a key must not be empty");
    check("? [a]\n: 1\n", "1:3", "a key must be text");
    check("a: .nan\n", "1:4", "not a finite number");
    check("a: [1, -.inf]\n", "1:8", "not a finite number");
    check("a: 1e999\n", "1:4", "not a finite number");
    check("a: [1\nb: 2", "2:2", "not YAML");
    check("a:\n\t- 1\n", "2:2", "not YAML");
}

#[test]
fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
    check(&"[".repeat(100_000), "1:256", "nested more than 64 deep");
    check(&format!("{}{}", "[".repeat(70), "]".repeat(70)), "1:65", "nested more than 64 deep");
    assert!(read(&format!("a: {}{}", "[".repeat(63), "]".repeat(63))).is_ok());
}

#[test]
fn several_faults_are_found_at_once() {
    let faults = read("a: .inf\nb: !x 1\na: 2\n").expect_err("three faults");
    assert_eq!(faults.len(), 3, "{faults:?}");
}
