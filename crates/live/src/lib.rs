//! The live half: an open-loop load generator for OpenAI-compatible servers, and the drivers that know each server.
//!
//! Time is read here, at the edge, and handed to the same [`Router`](acb_routing::Router) that the simulator uses. This crate
//! does not know what an experiment is, and it computes no statistics beyond the check of its own run.
