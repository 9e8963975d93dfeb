//! The configurations and the patterns.

/// One build of the workload program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Names its directory.
    pub name: &'static str,
    /// The workload's features.
    pub features: &'static str,
    /// The value of `CODETAG_BUILD`, if any.
    pub build: Option<&'static str>,
}

/// One way to run a binary: a row.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// As the tables name it.
    pub name: &'static str,
    /// What is run.
    pub binary: Binary,
    /// The value of `CODETAG`, if any.
    pub codetag: Option<&'static str>,
    /// Whether the child calls `codetag::enable()` itself.
    pub enable: bool,
    /// What the child must say that its state is.
    pub state: &'static str,
    /// Whether the child must have tracked what it holds.
    pub tracks: bool,
}

/// Objects and bytes that a child holds in its tagged function `held`.
pub const HELD_OBJS: u64 = 1_003;
/// See [`HELD_OBJS`].
pub const HELD_BYTES: u64 = 1_000 * 24 + 3 * (256 << 10);

const TAGS_OFF: Binary = Binary {
    name: "tags-off",
    features: "alloc-codetag",
    build: Some("off"),
};
const TAGS: Binary = Binary {
    name: "tags",
    features: "alloc-codetag",
    build: None,
};
const SYSTEM: Binary = Binary {
    name: "system",
    features: "alloc-system",
    build: None,
};
const MIMALLOC_V3: Binary = Binary {
    name: "mimalloc-v3",
    features: "alloc-mimalloc",
    build: None,
};
const MIMALLOC_V2: Binary = Binary {
    name: "mimalloc-v2",
    features: "mimalloc-v2",
    build: None,
};

const BASE_CONFIG: Config = Config {
    name: "tags off",
    binary: TAGS_OFF,
    codetag: None,
    enable: false,
    state: "tags-off",
    tracks: false,
};

const OWN: &[Config] = &[
    BASE_CONFIG,
    Config {
        name: "tags off again (A/A)",
        ..BASE_CONFIG
    },
    Config {
        name: "default-off",
        binary: TAGS,
        state: "off",
        ..BASE_CONFIG
    },
    Config {
        name: "enabled at start",
        binary: TAGS,
        codetag: Some("1"),
        state: "on",
        tracks: true,
        ..BASE_CONFIG
    },
    Config {
        name: "enabled at run time",
        binary: TAGS,
        enable: true,
        state: "on",
        tracks: true,
        ..BASE_CONFIG
    },
];

const PEERS: &[Config] = &[
    Config {
        name: "System",
        binary: SYSTEM,
        state: "none",
        ..BASE_CONFIG
    },
    Config {
        name: "mimalloc v3",
        binary: MIMALLOC_V3,
        state: "none",
        ..BASE_CONFIG
    },
    Config {
        name: "mimalloc v2",
        binary: MIMALLOC_V2,
        state: "none",
        ..BASE_CONFIG
    },
];

/// The position of the configuration that ratios are to.
pub const BASE: usize = 0;
/// The position of default-off.
pub const DEFAULT_OFF: usize = 2;
/// The position of enabled at start.
pub const ENABLED: usize = 3;
/// The positions of both versions of mimalloc, where peers are measured.
pub const MIMALLOC: [usize; 2] = [6, 7];

/// What is measured, in the order of the rows.
pub fn configs(peers: bool) -> Vec<Config> {
    let mut configs = OWN.to_vec();
    if peers {
        configs.extend(PEERS);
    }
    configs
}

/// The different binaries of `configs`.
pub fn binaries(configs: &[Config]) -> Vec<Binary> {
    let mut binaries: Vec<Binary> = Vec::new();
    for config in configs {
        if !binaries.contains(&config.binary) {
            binaries.push(config.binary);
        }
    }
    binaries
}

/// The workload's patterns by their names in its output, with headings.
pub const PATTERNS: &[(&str, &str)] = &[
    (
        "small.paired",
        "small objects (8…240 B), each freed at once",
    ),
    ("small.batch100", "small objects, batches of 100"),
    ("small.batch10000", "small objects, batches of 10,000"),
    ("pages.paired", "4 KiB pages, each freed at once"),
    ("pages.batch100", "4 KiB pages, batches of 100"),
    (
        "large.paired",
        "large objects (64 KiB…4 MiB), each freed at once",
    ),
    (
        "large.grown",
        "large objects grown by realloc, 64 KiB to 4 MiB",
    ),
];

/// The patterns of `family`, as in `small`.
pub fn family(family: &str) -> impl Iterator<Item = &'static str> {
    PATTERNS
        .iter()
        .map(|(name, _)| *name)
        .filter(move |name| name.split('.').next() == Some(family))
}

#[cfg(test)]
mod tests {
    use super::{BASE, DEFAULT_OFF, ENABLED, MIMALLOC, binaries, configs};

    #[test]
    fn positions_are_those_of_the_names() {
        let configs = configs(true);
        assert_eq!(configs[BASE].name, "tags off");
        assert_eq!(configs[DEFAULT_OFF].name, "default-off");
        assert_eq!(configs[ENABLED].name, "enabled at start");
        assert_eq!(
            MIMALLOC.map(|at| configs[at].name),
            ["mimalloc v3", "mimalloc v2"]
        );
        assert_eq!(binaries(&configs).len(), 5);
    }
}
