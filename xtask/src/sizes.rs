//! Size walls: files of at most 600 lines and functions of at most 70, tests aside.

use crate::fault::Fault;
use crate::source::{Kind, Source};

/// Lines that a file may have, tests aside.
const FILE_WALL: usize = 600;
/// Lines that a file should stay under.
const FILE_AIM: usize = 400;
/// Lines that a function may have, from `fn` to its closing brace.
const FUNCTION_WALL: usize = 70;
/// Lines that a function should stay under.
const FUNCTION_AIM: usize = 40;

/// What is over the aim but not over the wall: a number to watch, no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Long {
    /// Files of more than 400 lines.
    pub files: usize,
    /// Functions of more than 40 lines.
    pub functions: usize,
}

/// Checks one file; counts what is over the aim into `long`.
pub fn check(source: &Source, long: &mut Long) -> Vec<Fault> {
    let mut faults = Vec::new();
    if source.lines > FILE_WALL {
        let message = format!("{} lines, the wall is {FILE_WALL}: split the file by topic", source.lines);
        faults.push(Fault::of(&source.path, message));
    }
    long.files += usize::from(source.lines > FILE_AIM);
    for function in functions(source) {
        if function.lines > FUNCTION_WALL {
            let Function { name, lines, .. } = &function;
            let message =
                format!("fn {name} has {lines} lines, the wall is {FUNCTION_WALL}: take a step out of it");
            faults.push(Fault::at(&source.path, function.line, message));
        }
        long.functions += usize::from(function.lines > FUNCTION_AIM);
    }
    faults
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

fn functions(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if token.test || token.kind != Kind::Ident("fn".to_owned()) {
            continue;
        }
        // `fn(u32) -> u32` is a type, and a method of a trait may have no body.
        let Some(Kind::Ident(name)) = source.tokens.get(at + 1).map(|token| &token.kind) else { continue };
        if let Some(end) = body_end(source, at + 2) {
            let lines = source.tokens[end].line - token.line + 1;
            found.push(Function { name: name.clone(), line: token.line, lines });
        }
    }
    found
}

fn body_end(source: &Source, mut at: usize) -> Option<usize> {
    loop {
        match source.tokens.get(at)?.kind {
            Kind::Punct(';') => return None,
            Kind::Open('{', close) => return Some(close),
            Kind::Open(_, close) => at = close + 1,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> (Vec<Fault>, Long) {
        let mut long = Long::default();
        let source = Source::parse("crates/x/src/a.rs", text).expect("the fixture is Rust");
        (check(&source, &mut long), long)
    }

    fn function_of(lines: usize) -> String {
        format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_at_the_wall_passes_and_one_line_more_does_not() {
        assert!(check_text(&function_of(70)).0.is_empty());
        let (faults, long) = check_text(&function_of(71));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message.contains("fn a has 71 lines"), "{}", faults[0]);
        assert_eq!(long.functions, 1);
    }

    #[test]
    fn a_file_at_the_wall_passes_and_one_line_more_does_not() {
        assert!(check_text(&"const A: u8 = 0;\n".repeat(600)).0.is_empty());
        assert_eq!(check_text(&"const A: u8 = 0;\n".repeat(601)).0.len(), 1);
    }

    #[test]
    fn lines_and_functions_of_tests_are_not_counted() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(700));
        assert_eq!(check_text(&tests), (Vec::new(), Long::default()));
    }

    #[test]
    fn a_function_type_and_a_method_without_body_have_no_length() {
        let text =
            format!("trait T {{\n    fn a(&self) -> [u8; 2];\n}}\ntype F = fn(u32);\n{}", function_of(3));
        assert!(check_text(&text).0.is_empty());
    }
}
