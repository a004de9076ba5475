//! Live cells: the same requests, router and policies as in the simulator, sent to servers.
//!
//! Flow: [`servers`] finds the servers of an experiment or has [`managed`] start them, and asks each before every run what
//! it is, whether it has the adapters, and to empty its cache; [`cell`] sends a cell's requests through `acb-live` and
//! [`sink`] writes what came back.

pub mod cell;
pub mod error;
pub mod fleet;
pub mod managed;
pub mod servers;
pub mod sink;
pub mod state;
pub mod watch;

pub use error::LiveError;
