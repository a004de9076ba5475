//! Newtype identifiers: an adapter can't be passed where a replica is meant.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an index into a dense table.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(/// One request of a cell, numbered from 0 in order of creation.
    RequestId(u64));
id!(/// One conversation: its requests share history.
    SessionId(u64));
id!(/// One paying party.
    TenantId(u32));
id!(/// A set of tenants that may share cached state.
    TrustGroupId(u32));
id!(/// What a request asks for, as a router's classifier sees it: an index into the experiment's task names.
    TaskId(u32));
id!(/// An adapter: an index into [`crate::Adapters`].
    AdapterId(u32));
id!(/// A replica of the base model: an index into the cluster.
    ReplicaId(u32));
id!(/// A document that prompts share.
    DocumentId(u64));
id!(/// A run of tokens whose content is determined by this id and the offset within the run.
    ContentId(u64));

impl ContentId {
    /// The content of what the server answers to `request` with `adapter`: it differs from every prompt
    /// content, whose ids keep the top bit clear.
    #[must_use]
    pub fn of_output(request: RequestId) -> Self {
        Self(request.0 | 1 << 63)
    }
}
