//! Profiles to test with.

use codetag_export::{Owner, Profile, Source, Tag, Usage};
use std::path::PathBuf;

pub(crate) fn data(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data", name]
        .iter()
        .collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn read(name: &str) -> Profile {
    codetag_export::read(&*data(name)).expect("test data is a profile")
}

pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).expect("a vector takes everything");
    out
}

pub(crate) fn json(profile: &Profile) -> Vec<u8> {
    written(|out| codetag_export::json::write(profile, out))
}

pub(crate) fn allocinfo(profile: &Profile) -> Vec<u8> {
    written(|out| codetag_export::allocinfo::write(profile, out))
}

/// A tag of a crate `app`.
pub(crate) fn tag(module: &str, function: &str, line: u32) -> Tag {
    Tag {
        krate: Some("app".into()),
        module_path: Some(format!("app::{module}")),
        function: function.into(),
        file: format!("src/{module}.rs"),
        line,
        column: Some(4),
        name: None,
    }
}

pub(crate) fn usage(owner: impl Into<Owner>, live_objs: u64, requested_bytes: i64) -> Usage {
    Usage {
        owner: owner.into(),
        live_objs,
        requested_bytes: Some(requested_bytes),
        slot_bytes: requested_bytes + 8,
        is_accurate: true,
        extra: Vec::new(),
    }
}

pub(crate) fn profile(usages: impl IntoIterator<Item = Usage>) -> Profile {
    Profile {
        usages: usages.into_iter().collect(),
        ..Profile::default()
    }
}

/// 5,000 tags of 50 crates, every kind of field among them.
pub(crate) fn large() -> Profile {
    let mut random = fastrand::Rng::with_seed(5_000);
    let mut usages: Vec<Usage> = (0..5_000_u32)
        .map(|n| {
            let module = format!("m{}", n % 50);
            let mut tag = tag(&module, &format!("f{}", n / 7), n + 1);
            if n % 10 == 0 {
                tag.name = Some(format!("pool {}%", n % 13));
            }
            if n % 11 == 0 {
                tag.function = format!("dyn Trait<'a>::f{n}");
            }
            let mut usage = usage(tag, random.u64(0..1_000), random.i64(0..1 << 40));
            if n % 100 == 3 {
                usage.extra = vec![("numa.node".into(), format!("{}", n % 4))];
                usage.is_accurate = false;
            }
            usage
        })
        .collect();
    usages.push(usage(Owner::Untagged, 7, 4_711));
    usages.push(Usage {
        requested_bytes: None,
        is_accurate: false,
        ..usage(Owner::Untracked, 3, 100)
    });
    Profile {
        source: Source::Snapshot,
        program: Some("my service".into()),
        taken_unix_ns: Some(1_764_547_200_123_456_789),
        is_quiet: Some(true),
        heap: vec![
            ("obtained_bytes".into(), 79_790_096),
            ("unaccounted_bytes".into(), -8),
        ],
        usages,
    }
}
