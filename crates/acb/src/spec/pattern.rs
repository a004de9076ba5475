//! Patterns that several types share.

/// Names that are safe in a path, a label and a request: lower-case letters, digits, `_` and `-`, not first a sign.
/// A dot would be taken for the end of a name in a dotted path.
pub const NAME: &str = "^[a-z0-9][a-z0-9_-]*$";
