//! The words of the closed vocabulary, in byte order.

/// Every word that generated text may hold.
pub const WORDS: &[&str] = &[
    "Answer", "Compute", "Give", "JSON", "List", "Program", "Reply", "Station", "What", "all", "amber",
    "anchor", "and", "autumn", "basin", "beacon", "birch", "bridge", "canyon", "cedar", "cinder", "clover",
    "cobalt", "copper", "coral", "crater", "crimson", "crystal", "dawn", "delta", "depth", "desert", "dune",
    "else", "ember", "falcon", "fjord", "forest", "frost", "garden", "glacier", "granite", "harbor", "has",
    "hazel", "heron", "hollow", "in", "indigo", "integer", "integers", "is", "island", "ivory", "jasper",
    "juniper", "keys", "lagoon", "lantern", "lavender", "linden", "line", "lotus", "lunar", "maple",
    "marble", "marsh", "mass", "meadow", "mesa", "meteor", "midnight", "mirror", "mosaic", "nebula", "no",
    "nothing", "oasis", "object", "ocean", "of", "olive", "one", "only", "onyx", "opal", "orchard", "order",
    "osprey", "other", "pebble", "per", "pine", "plateau", "polar", "prairie", "quarry", "quartz", "rapids",
    "raven", "ravine", "reef", "reply", "result", "ridge", "river", "saffron", "sage", "sapphire", "section",
    "shadow", "silver", "solar", "speed", "spruce", "summit", "sunset", "the", "thicket", "thunder",
    "timber", "title", "titles", "tundra", "two", "valley", "value", "velvet", "violet", "walnut", "willow",
    "winter", "with", "words", "zenith", "zephyr",
];

/// The words of which section titles are made.
pub const TITLE_WORDS: &[&str] = &[
    "amber", "anchor", "autumn", "basin", "beacon", "birch", "bridge", "canyon", "cedar", "cinder", "clover",
    "cobalt", "copper", "coral", "crater", "crimson", "crystal", "dawn", "delta", "desert", "dune", "ember",
    "falcon", "fjord", "forest", "frost", "garden", "glacier", "granite", "harbor", "hazel", "heron",
    "hollow", "indigo", "island", "ivory", "jasper", "juniper", "lagoon", "lantern", "lavender", "linden",
    "lotus", "lunar", "maple", "marble", "marsh", "meadow", "mesa", "meteor", "midnight", "mirror", "mosaic",
    "nebula", "oasis", "ocean", "olive", "onyx", "opal", "orchard", "osprey", "pebble", "pine", "plateau",
    "polar", "prairie", "quarry", "quartz", "rapids", "raven", "ravine", "reef", "ridge", "river", "saffron",
    "sage", "sapphire", "shadow", "silver", "solar", "spruce", "summit", "sunset", "thicket", "thunder",
    "timber", "tundra", "valley", "velvet", "violet", "walnut", "willow", "winter", "zephyr", "zenith",
];
