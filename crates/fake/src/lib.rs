//! A fake server: the engine model of `acb-sim` in real time behind the HTTP that vLLM and SGLang speak.
//!
//! It is a stand-in for tests and rehearsals and says so in every answer. Nothing that it serves is a measurement.
