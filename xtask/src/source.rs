//! A Rust file as the rules see it: its tokens with their lines, and which of them belong to tests.
//!
//! Tokens rather than a syntax tree: code inside macro calls counts too, and comments and strings never do.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word.
    Ident(String),
    /// One character of punctuation.
    Punct(char),
    /// An opening bracket and the index of the token that closes it.
    Open(char, usize),
    /// A closing bracket.
    Close,
    /// A literal.
    Literal,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Line, from 1.
    pub line: usize,
    /// Whether it belongs to a test.
    pub test: bool,
}

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path relative to the repository.
    pub path: String,
    /// Tokens in order, brackets included.
    pub tokens: Vec<Token>,
    /// Lines that are not part of tests.
    pub lines: usize,
}

impl Source {
    /// Reads a Rust file.
    ///
    /// # Errors
    /// When the text is not a sequence of Rust tokens; the message says where.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let stream = TokenStream::from_str(text).map_err(|error| format!("not Rust: {error}"))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let all = text.lines().count();
        let in_tests = mark_tests(&mut tokens);
        let whole = of_tests(path) || starts_with_cfg_test(&tokens);
        let mut source = Self { path: path.to_owned(), tokens, lines: all - in_tests };
        if whole {
            source.mark_as_test();
        }
        Ok(source)
    }

    /// Marks the whole file as a test: its parent declares it so.
    pub fn mark_as_test(&mut self) {
        self.tokens.iter_mut().for_each(|token| token.test = true);
        self.lines = 0;
    }

    /// Where the modules lie that this file declares for tests only (`#[cfg(test)] mod testing;`), without `.rs`.
    pub fn test_modules(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or((".", &self.path));
        let below = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => self.path.trim_end_matches(".rs").to_owned(),
        };
        let modules = self.tokens.iter().enumerate().filter_map(|(at, token)| match &token.kind {
            Kind::Ident(name) if token.test && self.has(at + 1, &[";"]) => {
                self.has(at.checked_sub(1)?, &["mod"]).then_some(name)
            }
            _ => None,
        });
        modules.map(|name| format!("{below}/{name}")).collect()
    }

    /// Whether the tokens from `at` on are these: a word matches a word, a single character a punctuation mark.
    pub fn has(&self, at: usize, expected: &[&str]) -> bool {
        expected.iter().enumerate().all(|(offset, word)| {
            match self.tokens.get(at + offset).map(|t| &t.kind) {
                Some(Kind::Ident(found)) => found == word,
                Some(Kind::Punct(found)) | Some(Kind::Open(found, _)) => word.chars().eq([*found]),
                _ => false,
            }
        })
    }

    /// Index of the bracket that closes the one at `at`, when there is one.
    pub fn close_of(&self, at: usize) -> Option<usize> {
        close_of(&self.tokens, at)
    }
}

/// Whether a path holds nothing but tests or benchmarks.
fn of_tests(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
        || path.ends_with("_tests.rs")
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let kind = match tree {
            TokenTree::Ident(ident) => Kind::Ident(ident.to_string()),
            TokenTree::Punct(punct) => Kind::Punct(punct.as_char()),
            TokenTree::Literal(_) => Kind::Literal,
            TokenTree::Group(group) => {
                let bracket = match group.delimiter() {
                    Delimiter::Brace => '{',
                    Delimiter::Bracket => '[',
                    Delimiter::Parenthesis | Delimiter::None => '(',
                };
                let open = out.len();
                out.push(Token { kind: Kind::Open(bracket, 0), line, test: false });
                flatten(group.stream(), out);
                let close = out.len();
                out[open].kind = Kind::Open(bracket, close);
                out.push(Token { kind: Kind::Close, line: group.span_close().start().line, test: false });
                continue;
            }
        };
        out.push(Token { kind, line, test: false });
    }
}

fn close_of(tokens: &[Token], at: usize) -> Option<usize> {
    match tokens.get(at)?.kind {
        Kind::Open(_, close) => Some(close),
        _ => None,
    }
}

fn is_punct(tokens: &[Token], at: usize, mark: char) -> bool {
    tokens.get(at).is_some_and(|token| token.kind == Kind::Punct(mark))
}

fn starts_with_cfg_test(tokens: &[Token]) -> bool {
    let mut at = 0;
    while is_punct(tokens, at, '#') && is_punct(tokens, at + 1, '!') {
        let Some(close) = close_of(tokens, at + 2) else { return false };
        if names_test(&tokens[at + 3..close]) {
            return true;
        }
        at = close + 1;
    }
    false
}

/// Whether the inside of an attribute says that the item is for tests: `test`, `x::test` or `cfg(test)`.
fn names_test(attribute: &[Token]) -> bool {
    let words: Vec<&str> = attribute
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Ident(word) => Some(word.as_str()),
            _ => None,
        })
        .collect();
    match words.first() {
        Some(&"cfg") => words.contains(&"test") && !words.contains(&"not"),
        Some(_) => words.last() == Some(&"test") && !words.contains(&"cfg_attr"),
        None => false,
    }
}

/// Marks the tokens of test items and returns how many lines they take.
fn mark_tests(tokens: &mut [Token]) -> usize {
    let (mut at, mut lines) = (0, 0);
    while at < tokens.len() {
        let attribute = is_punct(tokens, at, '#').then(|| close_of(tokens, at + 1)).flatten();
        match attribute {
            Some(close) if names_test(&tokens[at + 2..close]) => {
                let end = item_end(tokens, close + 1);
                lines += tokens[end].line - tokens[at].line + 1;
                tokens[at..=end].iter_mut().for_each(|token| token.test = true);
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    lines
}

/// Index of the last token of the item that starts at `at`, its remaining attributes included.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while is_punct(tokens, at, '#') {
        at = close_of(tokens, at + 1).map_or(at + 1, |close| close + 1);
    }
    while at < tokens.len() {
        match tokens[at].kind {
            Kind::Punct(';') => return at,
            Kind::Open('{', close) => return close,
            Kind::Open(_, close) => at = close + 1,
            _ => at += 1,
        }
    }
    tokens.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested_words(text: &str) -> Vec<String> {
        let source = Source::parse("crates/x/src/a.rs", text).expect("the fixture is Rust");
        let words = source.tokens.iter().filter(|token| token.test);
        words
            .filter_map(|token| if let Kind::Ident(w) = &token.kind { Some(w.clone()) } else { None })
            .collect()
    }

    #[test]
    fn a_test_module_and_a_test_function_are_tests_and_the_rest_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[test]\nfn c() {}\nfn d() {}\n";
        assert_eq!(tested_words(text), ["cfg", "test", "mod", "tests", "fn", "b", "test", "fn", "c"]);
        assert_eq!(Source::parse("a.rs", text).expect("Rust").lines, 2);
    }

    #[test]
    fn code_for_everything_but_tests_is_no_test() {
        assert!(tested_words("#[cfg(not(test))]\nfn a() {}").is_empty());
        assert!(tested_words("#[derive(Clone)]\nstruct A;").is_empty());
    }

    #[test]
    fn a_file_in_a_tests_folder_is_all_tests() {
        for path in ["crates/x/tests/a.rs", "crates/x/benches/a.rs", "crates/x/src/merge_tests.rs"] {
            let source = Source::parse(path, "fn a() {}\n").expect("Rust");
            assert!(source.tokens.iter().all(|token| token.test));
            assert_eq!(source.lines, 0);
        }
    }

    #[test]
    fn modules_declared_for_tests_are_named_by_their_place() {
        let modules = |path: &str, text: &str| Source::parse(path, text).expect("Rust").test_modules();
        let text = "mod a;\n#[cfg(test)]\nmod testing;\n#[cfg(test)]\nmod tests { fn b() {} }\n";
        assert_eq!(modules("crates/x/src/lib.rs", text), ["crates/x/src/testing"]);
        assert_eq!(modules("crates/x/src/kv.rs", text), ["crates/x/src/kv/testing"]);
    }

    #[test]
    fn text_that_is_not_rust_is_an_error_and_no_panic() {
        assert!(Source::parse("a.rs", "fn a() { \"").is_err());
    }
}
