//! pprof, read again by a decoder of its own that checks what `go tool pprof` checks.

use crate::make::{self, profile, tag, usage};
use codetag_export::{Diff, Measure, Owner, Profile, Usage, pprof};
use flate2::read::GzDecoder;
use prost::Message as _;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};

/// google/pprof, proto/profile.proto.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(bytes, repeated, tag = "3")]
        pub(super) mapping: Vec<Vec<u8>>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, tag = "14")]
        pub(super) default_sample_type: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }
}

/// Decodes and checks what `profile.CheckValid` checks.
fn decode(bytes: &[u8]) -> proto::Profile {
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
    let profile = proto::Profile::decode(&*plain).expect("a protocol buffer");
    assert_eq!(profile.string_table[0], "");
    assert_eq!(
        profile.string_table.iter().collect::<HashSet<_>>().len(),
        profile.string_table.len()
    );
    assert!(profile.mapping.is_empty());
    let functions: HashSet<u64> = profile.function.iter().map(|f| f.id).collect();
    let locations: HashSet<u64> = profile.location.iter().map(|l| l.id).collect();
    assert_eq!(
        (functions.len(), locations.len()),
        (profile.function.len(), profile.location.len())
    );
    assert!(!functions.contains(&0) && !locations.contains(&0));
    // One that is the name would be demangled: what stands in `<…>` cut out.
    assert!(profile.function.iter().all(|f| f.system_name == 0));
    for location in &profile.location {
        assert_eq!((location.mapping_id, location.address), (0, 0));
        assert!(
            location
                .line
                .iter()
                .all(|line| functions.contains(&line.function_id))
        );
        assert_eq!(location.line.len(), 1);
    }
    for sample in &profile.sample {
        assert_eq!((sample.value.len(), sample.location_id.len()), (2, 1));
        assert!(locations.contains(&sample.location_id[0]));
        assert!(
            sample
                .label
                .iter()
                .all(|label| label.key > 0 && label.str > 0)
        );
    }
    profile
}

impl proto::Profile {
    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).expect("an index")]
    }

    fn value_type(&self, kind: &proto::ValueType) -> (&str, &str) {
        (self.text(kind.r#type), self.text(kind.unit))
    }

    /// Objects and bytes by function and line.
    fn figures(&self) -> BTreeMap<(String, i64), (i64, i64)> {
        let mut figures = BTreeMap::new();
        for sample in &self.sample {
            let location = self.location.iter().find(|l| l.id == sample.location_id[0]);
            let line = &location.expect("checked").line[0];
            let function = self.function.iter().find(|f| f.id == line.function_id);
            let name = self.text(function.expect("checked").name).to_owned();
            let sum: &mut (i64, i64) = figures.entry((name, line.line)).or_default();
            *sum = (sum.0 + sample.value[0], sum.1 + sample.value[1]);
        }
        figures
    }
}

fn write(profile: &Profile, measure: Measure) -> proto::Profile {
    decode(&make::written(|out| pprof::write(profile, measure, out)))
}

#[test]
fn the_head_is_that_of_a_heap_profile() {
    let profile = write(&make::large(), Measure::Bytes);
    let types: Vec<_> = profile
        .sample_type
        .iter()
        .map(|t| profile.value_type(t))
        .collect();
    assert_eq!(
        types,
        [("inuse_objects", "count"), ("inuse_space", "bytes")]
    );
    let period_type = profile.period_type.as_ref().expect("one");
    assert_eq!(
        (profile.value_type(period_type), profile.period),
        (("space", "bytes"), 1)
    );
    assert_eq!(profile.text(profile.default_sample_type), "inuse_space");
    assert_eq!(profile.time_nanos, 1_764_547_200_123_456_789);
}

#[test]
fn every_owner_has_its_figures() {
    let source = make::large();
    let profile = write(&source, Measure::Bytes);
    let live = source
        .usages
        .iter()
        .filter(|u| (u.live_objs, u.bytes()) != (0, 0));
    assert_eq!(profile.sample.len(), live.count());
    let figures = profile.figures();
    let sums = source.sums();
    assert_eq!(
        figures.values().fold((0, 0), |sum, v| (
            sum.0 + i128::from(v.0),
            sum.1 + i128::from(v.1)
        )),
        (sums.live_objs, sums.bytes)
    );
    for usage in &source.usages {
        let key = match &usage.owner {
            Owner::Tag(tag) => {
                let path = tag.module_path.as_deref().expect("all have one");
                let name = tag
                    .name
                    .as_ref()
                    .map_or(String::new(), |name| format!(" {{{name}}}"));
                (
                    format!("{path}::{}{name}", tag.function),
                    i64::from(tag.line),
                )
            }
            other => (other.to_string(), 0),
        };
        let expected = (usage.live_objs.cast_signed(), usage.bytes());
        assert_eq!(figures[&key], expected, "{key:?}");
    }
    let slots = write(&source, Measure::Slot);
    let sum: i128 = slots.figures().values().map(|v| i128::from(v.1)).sum();
    assert_eq!(sum, sums.slot_bytes);
}

#[test]
fn crate_module_and_name_are_labels() {
    let mut named = tag("m", "f", 1);
    named.name = Some("pool".into());
    let profile = write(
        &profile([usage(named, 1, 10), usage(Owner::Untagged, 1, 1)]),
        Measure::Bytes,
    );
    let labels = |sample: &proto::Sample| -> Vec<(String, String)> {
        let text = |index| profile.text(index).to_owned();
        sample
            .label
            .iter()
            .map(|label| (text(label.key), text(label.str)))
            .collect()
    };
    let expected = [("crate", "app"), ("module", "app::m"), ("name", "pool")];
    assert_eq!(
        labels(&profile.sample[0]),
        expected.map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    assert!(labels(&profile.sample[1]).is_empty());
}

#[test]
fn a_difference_may_be_negative() {
    let before = make::read("linux-6.12-under-load.allocinfo.gz");
    let after = make::read("linux-6.12-after-load.allocinfo.gz");
    let diff = Diff::new(&before, &after);
    let profile = decode(&make::written(|out| {
        pprof::write_diff(&diff, Some(9), Some(4), Measure::Bytes, out)
    }));
    assert_eq!((profile.time_nanos, profile.duration_nanos), (9, 4));
    let figures = profile.figures();
    assert_eq!(
        figures[&("__filemap_get_folio".to_owned(), 1944)],
        (-2_415, -9_891_840)
    );
    let sum: i64 = figures.values().map(|v| v.1).sum();
    assert_eq!(sum, 19_433_152 - 35_041_056);
    let changed = diff.changes.iter().filter(|c| !c.delta().is_zero());
    assert_eq!(profile.sample.len(), changed.count());
}

#[test]
fn what_has_no_place_in_64_bits_is_an_error_before_the_first_byte() {
    let too_many = Usage {
        live_objs: u64::MAX,
        ..usage(tag("m", "f", 1), 1, 1)
    };
    let mut out = Vec::new();
    let error =
        pprof::write(&profile([too_many]), Measure::Bytes, &mut out).expect_err("too large");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "src/m.rs:1 [app] func:f: a figure is too large for pprof"
    );
    assert!(out.is_empty());
}
