//! The rows: what is built, how it is run, and what its child must say of itself.

use crate::said::Said;

/// Objects and bytes that a child of the workload program holds in its tagged function `held`.
pub const HELD_OBJS: u64 = 1_003;
/// See [`HELD_OBJS`].
pub const HELD_BYTES: u64 = 1_000 * 24 + 3 * (256 << 10);

/// One build of the workload program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Names the finished binary.
    pub name: &'static str,
    /// Names the target directory, which builds with the same dependencies share.
    pub flavour: &'static str,
    /// The workload's features.
    pub features: &'static str,
    /// Whether tags are compiled out.
    pub is_tags_off: bool,
    /// A `cfg` for every crate of the build.
    pub cfg: Option<&'static str>,
}

/// What kind of allocator a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// codetag in one of its configurations.
    Own,
    /// Another allocator, without profiling.
    Plain,
    /// Another profiler, which is slow enough that fewer rounds will do.
    Profiler,
}

/// One way to run a binary: a row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As the tables name it.
    pub name: &'static str,
    /// As the command line names it.
    pub key: &'static str,
    /// What kind of allocator it has.
    pub kind: Kind,
    /// What is run.
    pub build: Build,
    /// The value of `CODETAG`, if any.
    pub codetag: Option<&'static str>,
    /// Whether the child calls `codetag::enable()` itself.
    pub enable: bool,
    /// What the child must say that its state is.
    pub state: &'static str,
    /// Whether the child must have tracked what it holds.
    pub tracks: bool,
    /// Whether it can be run under Valgrind in any reasonable time.
    pub is_counted: bool,
}

impl Row {
    /// What a child must have said before and after its measurement, or its figures are of something else.
    ///
    /// # Errors
    ///
    /// A sentence with what was due and what it said.
    pub fn confirm(&self, said: &Said) -> Result<(), String> {
        let (objs, bytes) = if self.tracks {
            (HELD_OBJS, HELD_BYTES)
        } else {
            (0, 0)
        };
        for when in ["before", "after"] {
            let state = said.words(&format!("state:{when}")).unwrap_or("not said");
            if state != self.state {
                return Err(format!(
                    "its state {when} the measurement was {state}, and {} was due",
                    self.state
                ));
            }
            for (key, due) in [("tracked_objs", objs), ("tracked_bytes", bytes)] {
                let number = said.number(&format!("{key}:{when}"));
                if number != Some(due as f64) {
                    let number = number.map_or("not said".to_owned(), |number| number.to_string());
                    return Err(format!(
                        "its {key} {when} the measurement was {number}, and {due} was due"
                    ));
                }
            }
        }
        Ok(())
    }
}

const TAGS: Build = Build {
    name: "tags",
    flavour: "tags",
    features: "alloc-codetag",
    is_tags_off: false,
    cfg: None,
};
const TAGS_OFF: Build = Build {
    name: "tags-off",
    flavour: "tags-off",
    is_tags_off: true,
    ..TAGS
};
const COUNTERS: Build = Build {
    name: "counters",
    flavour: "counters",
    cfg: Some("codetag_counters"),
    ..TAGS
};

const fn peer(name: &'static str, features: &'static str) -> Build {
    Build {
        name,
        flavour: "peers",
        features,
        is_tags_off: false,
        cfg: None,
    }
}

const BASE_ROW: Row = Row {
    name: "tags off",
    key: "tags-off",
    kind: Kind::Own,
    build: TAGS_OFF,
    codetag: None,
    enable: false,
    state: "tags-off",
    tracks: false,
    is_counted: true,
};
const AGAIN_ROW: Row = Row {
    name: "tags off again (A/A)",
    key: "again",
    ..BASE_ROW
};
const OFF_ROW: Row = Row {
    name: "default-off",
    key: "default-off",
    build: TAGS,
    state: "off",
    ..BASE_ROW
};
const ENABLED_ROW: Row = Row {
    name: "enabled at start",
    key: "enabled",
    build: TAGS,
    codetag: Some("1"),
    state: "on",
    tracks: true,
    ..BASE_ROW
};
const LATER_ROW: Row = Row {
    name: "enabled at run time",
    key: "enabled-later",
    codetag: None,
    enable: true,
    ..ENABLED_ROW
};
const COUNTERS_ROW: Row = Row {
    name: "counters on the hot path",
    key: "counters",
    build: COUNTERS,
    ..ENABLED_ROW
};

const fn other(name: &'static str, key: &'static str, kind: Kind, features: &'static str) -> Row {
    Row {
        name,
        key,
        kind,
        build: peer(key, features),
        codetag: None,
        enable: false,
        state: "none",
        tracks: false,
        is_counted: true,
    }
}

/// Every row, in the order of the tables.
pub const ROWS: &[Row] = &[
    BASE_ROW,
    AGAIN_ROW,
    OFF_ROW,
    ENABLED_ROW,
    LATER_ROW,
    COUNTERS_ROW,
    other("System", "system", Kind::Plain, "alloc-system"),
    other("mimalloc v3", "mimalloc-v3", Kind::Plain, "alloc-mimalloc"),
    other("mimalloc v2", "mimalloc-v2", Kind::Plain, "mimalloc-v2"),
    other("jemalloc", "jemalloc", Kind::Plain, "alloc-jemalloc"),
    other(
        "jemalloc, profiling",
        "jemalloc-profiling",
        Kind::Profiler,
        "jemalloc-profiling",
    ),
    Row {
        // A backtrace per allocation.
        is_counted: false,
        ..other("dhat", "dhat", Kind::Profiler, "alloc-dhat")
    },
    other(
        "tracking-allocator",
        "tracking",
        Kind::Profiler,
        "alloc-tracking",
    ),
];

/// The key of the row that ratios are to.
pub const BASE: &str = BASE_ROW.key;
/// The key of the same configuration, measured once more.
pub const AGAIN: &str = AGAIN_ROW.key;
/// The key of the production default.
pub const DEFAULT_OFF: &str = OFF_ROW.key;
/// The key of profiling on from the start.
pub const ENABLED: &str = ENABLED_ROW.key;
/// The key of per-tag counters.
pub const COUNTERS_KEY: &str = COUNTERS_ROW.key;
/// The keys of both versions of mimalloc.
pub const MIMALLOC: [&str; 2] = ["mimalloc-v3", "mimalloc-v2"];

/// The rows of these keys, in the order of the tables, and always the base first. All for no keys.
///
/// # Errors
///
/// A sentence that names the key that no row has.
pub fn rows(keys: &[String]) -> Result<Vec<Row>, String> {
    if let Some(unknown) = keys
        .iter()
        .find(|key| ROWS.iter().all(|row| row.key != **key))
    {
        let known: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
        return Err(format!(
            "there is no row {unknown}: there are {}",
            known.join(", ")
        ));
    }
    let chosen =
        |row: &&Row| keys.is_empty() || row.key == BASE || keys.iter().any(|key| key == row.key);
    Ok(ROWS.iter().filter(chosen).copied().collect())
}

/// The different builds of `rows`.
pub fn builds(rows: &[Row]) -> Vec<Build> {
    let mut builds: Vec<Build> = Vec::new();
    for row in rows {
        if !builds.contains(&row.build) {
            builds.push(row.build);
        }
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::{BASE, ENABLED, ROWS, builds, rows};
    use crate::said::Said;

    #[test]
    fn rows_are_chosen_by_key_and_the_base_is_always_there() {
        assert_eq!(rows(&[]).expect("all").len(), ROWS.len());
        let two = rows(&[ENABLED.to_owned()]).expect("a row");
        assert_eq!(
            two.iter().map(|row| row.key).collect::<Vec<_>>(),
            [BASE, ENABLED]
        );
        let error = rows(&["no".to_owned()]).expect_err("no row");
        assert!(
            error.starts_with("there is no row no: there are tags-off, "),
            "{error}"
        );
        assert_eq!(builds(ROWS).len(), 10);
    }

    #[test]
    fn a_child_that_was_not_on_is_an_error() {
        let row = rows(&[ENABLED.to_owned()]).expect("a row")[1];
        let said = |state: &str, objs: u64| {
            ["before", "after"].map(|when| {
                format!("state:{when} {state}\ntracked_objs:{when} {objs}\ntracked_bytes:{when} 810432\n")
            })
        };
        let confirm = |text: &str| row.confirm(&Said::parse(text.as_bytes()).expect("lines"));
        assert_eq!(confirm(&said("on", 1_003).concat()), Ok(()));
        let [before, _] = said("on", 1_003);
        for wrong in [
            said("off", 1_003).concat(),
            said("on", 0).concat(),
            String::new(),
            before,
        ] {
            assert!(confirm(&wrong).is_err(), "{wrong}");
        }
    }
}
