//! How a replica's memory is divided: the one place where it is computed.
//!
//! The engine takes a share of the card, puts weights, adapter slots, activations and graphs into it, and makes KV
//! blocks of what is left. Every slot is sized for the highest rank, whatever adapter is in it.

/// What is put into a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Memory of the card, bytes.
    pub card_bytes: f64,
    /// Share of it that the engine may use.
    pub utilization: f64,
    /// Activations, graphs, the driver's own: whatever is neither weights, slots nor KV, bytes.
    pub overhead_bytes: f64,
    /// The model's weights, bytes.
    pub weight_bytes: u64,
    /// Adapter slots.
    pub slots: u32,
    /// One slot, sized for the highest rank, bytes.
    pub slot_bytes: u64,
    /// Keys and values of one token, bytes.
    pub kv_bytes_per_token: u64,
    /// Tokens in one KV block.
    pub block_tokens: u32,
}

/// How the card is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryPlan {
    /// What the engine may use, bytes.
    pub budget_bytes: f64,
    /// All adapter slots, bytes.
    pub slots_bytes: u64,
    /// What is left for keys and values, bytes; negative when weights, slots and overhead don't fit.
    pub left_bytes: f64,
    /// Whole KV blocks in what is left.
    pub blocks: u64,
    /// Tokens in these blocks.
    pub kv_tokens: u64,
}

impl Memory {
    /// Divides the card.
    #[must_use]
    pub fn plan(&self) -> MemoryPlan {
        let budget_bytes = self.card_bytes * self.utilization;
        let slots_bytes = u64::from(self.slots) * self.slot_bytes;
        let left_bytes = budget_bytes - self.overhead_bytes - self.weight_bytes as f64 - slots_bytes as f64;
        let block_tokens = u64::from(self.block_tokens.max(1));
        let block_bytes = self.kv_bytes_per_token.max(1) * block_tokens;
        let blocks = (left_bytes.max(0.0) / block_bytes as f64) as u64;
        MemoryPlan { budget_bytes, slots_bytes, left_bytes, blocks, kv_tokens: blocks * block_tokens }
    }
}

impl MemoryPlan {
    /// Whether the engine starts: one request of the longest context has to fit.
    #[must_use]
    pub fn starts(&self, context_tokens: u32) -> bool {
        self.blocks > 0 && self.kv_tokens >= u64::from(context_tokens)
    }

    /// Requests of this length that fit at once; `None` for a length of zero.
    #[must_use]
    pub fn concurrency(&self, context_tokens: u32) -> Option<f64> {
        (context_tokens > 0).then(|| self.kv_tokens as f64 / f64::from(context_tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Memory = Memory {
        card_bytes: 1000.0,
        utilization: 0.9,
        overhead_bytes: 100.0,
        weight_bytes: 300,
        slots: 2,
        slot_bytes: 50,
        kv_bytes_per_token: 5,
        block_tokens: 4,
    };

    #[test]
    fn what_is_left_becomes_whole_blocks() {
        let plan = SMALL.plan();
        assert_eq!((plan.slots_bytes, plan.left_bytes, plan.blocks, plan.kv_tokens), (100, 400.0, 20, 80));
        assert_eq!((plan.starts(80), plan.starts(81)), (true, false));
        assert_eq!((plan.concurrency(40), plan.concurrency(0)), (Some(2.0), None));
    }

    #[test]
    fn a_model_that_does_not_fit_leaves_nothing_and_says_how_much_is_missing() {
        let plan = Memory { weight_bytes: 2000, ..SMALL }.plan();
        assert_eq!((plan.blocks, plan.starts(0)), (0, false));
        assert!(plan.left_bytes < 0.0);
    }

    #[test]
    fn a_slot_more_costs_its_bytes_in_tokens() {
        let more = Memory { slots: 4, ..SMALL }.plan();
        assert_eq!(SMALL.plan().kv_tokens - more.kv_tokens, 20);
    }
}
