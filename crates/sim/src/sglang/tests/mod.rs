//! SGLang.
