//! The written lists. An entry that no longer holds is a fault too, so they stay as short as the truth.

/// Shipped files with `unsafe`; each opens with a `# Safety model`.
pub const UNSAFE_SHIPPED: &[&str] = &[
    "crates/codetag/src/alloc/chunk.rs",
    "crates/codetag/src/alloc/class.rs",
    "crates/codetag/src/alloc/debug/blocks.rs",
    "crates/codetag/src/alloc/debug/on.rs",
    "crates/codetag/src/alloc/debug/slot.rs",
    "crates/codetag/src/alloc/ext/counters.rs",
    "crates/codetag/src/alloc/ext/obj_exts.rs",
    "crates/codetag/src/alloc/ext/off.rs",
    "crates/codetag/src/alloc/ext/on.rs",
    "crates/codetag/src/alloc/ext/page_ext.rs",
    "crates/codetag/src/alloc/ext/switch/patched.rs",
    "crates/codetag/src/alloc/heap.rs",
    "crates/codetag/src/alloc/heap/after_fork.rs",
    "crates/codetag/src/alloc/heap/bin.rs",
    "crates/codetag/src/alloc/inner.rs",
    "crates/codetag/src/alloc/large.rs",
    "crates/codetag/src/alloc/mod.rs",
    "crates/codetag/src/alloc/path.rs",
    "crates/codetag/src/alloc/path/fast.rs",
    "crates/codetag/src/alloc/path/fast_plain.rs",
    "crates/codetag/src/alloc/scan.rs",
    "crates/codetag/src/alloc/slab.rs",
    "crates/codetag/src/alloc/thread.rs",
    "crates/codetag/src/report/scratch.rs",
    "crates/codetag/src/scope/future.rs",
    "crates/codetag/src/scope/in_tag.rs",
    "crates/codetag/src/scope/in_tag_off.rs",
    "crates/codetag/src/span/live.rs",
    "crates/codetag/src/span/stack.rs",
    "crates/codetag/src/sys/cpu.rs",
    "crates/codetag/src/sys/linux.rs",
    "crates/codetag/src/sys/portable.rs",
    "crates/codetag/src/sys/process.rs",
    "crates/codetag/src/sys/signal.rs",
    "crates/codetag/src/sys/stderr.rs",
    "crates/codetag/src/sys/text.rs",
    "crates/codetag/src/tag/ids.rs",
];

/// Files with `unsafe` that nobody links: tests, benches, examples. A path that ends in `/` is a directory.
/// Second: what they need it for.
pub const UNSAFE_ELSEWHERE: &[(&str, &str)] = &[
    (
        "benches/workload/src/main.rs",
        "options that jemalloc finds by their name",
    ),
    (
        "benches/workload/src/measured.rs",
        "a function that Callgrind finds by its name",
    ),
    (
        "benches/workload/src/patterns.rs",
        "calls std::alloc's functions as collections do",
    ),
    (
        "crates/codetag-loom/src/tracked.rs",
        "memory that a model's threads share, watched by loom",
    ),
    (
        "crates/codetag-overhead/tests/subjects/",
        "instructions and page faults of a known number, without a runtime around them",
    ),
    (
        "crates/codetag/tests/attribute/unsafe_fns.rs",
        "the attribute on unsafe functions",
    ),
    (
        "crates/codetag/tests/debug_programs/",
        "the wrong use of the heap that must be met",
    ),
    (
        "crates/codetag/tests/programs/",
        "inner allocators of their own, and blocks of any alignment",
    ),
    (
        "crates/codetag/tests/spans/tests/allocations.rs",
        "allocators that count calls and make spans",
    ),
    ("examples/own_inner.rs", "an inner allocator of its own"),
];

/// Directories of files that stand for code of users, who may allow and do what they like.
pub const USER_CODE: &[&str] = &["crates/codetag/tests/subjects/", "crates/codetag/tests/ui/"];

/// No source file is longer, so that one file stays one idea.
pub const LINES_MAX: usize = 600;

/// Files that may be longer, with the reason.
pub const LONG_FILES: &[(&str, &str)] = &[];

/// Which members of this workspace a package may depend on (development dependencies apart). Packages that
/// are not listed may depend on any.
pub const ROOMS: &[(&str, &[&str])] = &[
    ("codetag-macros", &[]),
    ("codetag", &["codetag-macros"]),
    ("codetag-export", &["codetag"]),
    ("codetag-overhead", &[]),
    ("codetag-lab", &[]),
    (
        "codetag-cli",
        &[
            "codetag",
            "codetag-export",
            "codetag-overhead",
            "codetag-lab",
        ],
    ),
    ("codetag-loom", &["codetag"]),
    ("codetag-examples", &["codetag", "codetag-export"]),
    ("codetag-tidy", &[]),
];

/// Files that a program has made: their words are not ours.
pub const GENERATED: &[&str] = &["docs/find_a_leak.svg"];

/// Words that say that something is not done. Written in halves, for this file is looked through as well.
pub const UNFINISHED: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
];
