//! The difference of two profiles.

use crate::make::{profile, tag, usage};
use codetag_export::{Diff, Match, Measure, Owner, Profile, Tag, Trend, Usage};

/// Function and line, how it was matched, bytes before and after.
fn rows(before: &Profile, after: &Profile) -> Vec<(String, Match, i128, i128)> {
    let diff = Diff::new(before, after);
    let sum =
        |side: fn(&codetag_export::Change) -> i128| diff.changes.iter().map(side).sum::<i128>();
    assert_eq!(sum(|c| c.before.bytes), diff.before.bytes);
    assert_eq!(sum(|c| c.after.bytes), diff.after.bytes);
    let mut rows: Vec<_> = diff
        .changes
        .iter()
        .map(|change| {
            let owner = match &change.owner {
                Owner::Tag(tag) => format!("{}:{}", tag.function, tag.line),
                other => other.to_string(),
            };
            (
                owner,
                change.matched,
                change.before.bytes,
                change.after.bytes,
            )
        })
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn row(owner: &str, matched: Match, before: i128, after: i128) -> (String, Match, i128, i128) {
    (owner.to_owned(), matched, before, after)
}

#[test]
fn new_gone_grown_shrunk_and_same() {
    let before = profile([
        usage(tag("m", "gone", 1), 1, 10),
        usage(tag("m", "grown", 2), 1, 10),
        usage(tag("m", "shrunk", 3), 2, 20),
        usage(tag("m", "same", 4), 1, 10),
        Usage {
            slot_bytes: 0,
            ..usage(tag("m", "new", 5), 0, 0)
        },
    ]);
    let after = profile([
        usage(tag("m", "grown", 2), 2, 30),
        usage(tag("m", "shrunk", 3), 1, 5),
        usage(tag("m", "same", 4), 1, 10),
        usage(tag("m", "new", 5), 1, 7),
        usage(Owner::Untagged, 1, 1),
    ]);
    let diff = Diff::new(&before, &after);
    let trends: Vec<(String, Trend)> = diff
        .by_size(Measure::Bytes)
        .into_iter()
        .map(|change| {
            let name = change
                .owner
                .tag()
                .map_or("untagged".to_owned(), |t| t.function.clone());
            (name, change.trend(Measure::Bytes))
        })
        .collect();
    let expected = [
        ("grown", Trend::Grown),
        ("shrunk", Trend::Shrunk),
        ("gone", Trend::Gone),
        ("new", Trend::New),
        ("untagged", Trend::New),
        ("same", Trend::Same),
    ];
    assert_eq!(
        trends,
        expected.map(|(name, trend)| (name.to_owned(), trend))
    );
    assert_eq!(diff.after.minus(&diff.before).bytes, 53 - 50);
    assert_eq!(diff.moved(), 0);
}

/// Ten lines were put in above both: the second now stands where the first one stood.
#[test]
fn tags_of_one_function_are_not_confused_when_lines_move() {
    let before = profile([
        usage(tag("m", "f", 10), 1, 1),
        usage(tag("m", "f", 20), 1, 2),
    ]);
    let after = profile([
        usage(tag("m", "f", 20), 1, 101),
        usage(tag("m", "f", 30), 1, 102),
    ]);
    assert_eq!(
        rows(&before, &after),
        [
            row("f:20", Match::Moved, 1, 101),
            row("f:30", Match::Moved, 2, 102)
        ]
    );
    assert_eq!(Diff::new(&before, &after).moved(), 2);
}

#[test]
fn one_that_stayed_beside_one_that_moved() {
    let before = profile([
        usage(tag("m", "f", 10), 1, 1),
        usage(tag("m", "f", 20), 1, 2),
    ]);
    let after = profile([
        usage(tag("m", "f", 10), 1, 3),
        usage(tag("m", "f", 25), 1, 4),
    ]);
    assert_eq!(
        rows(&before, &after),
        [
            row("f:10", Match::Same, 1, 3),
            row("f:25", Match::Moved, 2, 4)
        ]
    );
}

/// A tag that was not entered yet is in no list: the others stay where they are.
#[test]
fn a_tag_more_in_the_same_build_is_new() {
    let one = [usage(tag("m", "f", 20), 1, 2)];
    let two = [
        usage(tag("m", "f", 10), 1, 1),
        usage(tag("m", "f", 20), 1, 3),
    ];
    assert_eq!(
        rows(&profile(one.clone()), &profile(two.clone())),
        [
            row("f:10", Match::OnlyAfter, 0, 1),
            row("f:20", Match::Same, 2, 3)
        ]
    );
    assert_eq!(
        rows(&profile(two), &profile(one)),
        [
            row("f:10", Match::OnlyBefore, 1, 0),
            row("f:20", Match::Same, 3, 2)
        ]
    );
}

#[test]
fn when_it_cannot_be_told_which_is_which_the_sums_are_compared() {
    let before = profile([
        usage(tag("m", "f", 10), 1, 1),
        usage(tag("m", "f", 20), 1, 2),
    ]);
    let after = profile([15, 25, 35].map(|line| usage(tag("m", "f", line), 1, 4)));
    let matched = Match::Merged {
        before: 2,
        after: 3,
    };
    assert_eq!(rows(&before, &after), [row("f:15", matched, 3, 12)]);
    assert_eq!(Diff::new(&before, &after).moved(), 3);
}

#[test]
fn a_name_and_a_module_path_tell_tags_apart_and_a_file_does_not() {
    let named = |name: &str, line| Tag {
        name: Some(name.to_owned()),
        ..tag("m", "f", line)
    };
    let elsewhere = Tag {
        file: "/build/2/src/m.rs".into(),
        ..tag("m", "g", 9)
    };
    let before = profile([
        usage(named("a", 1), 1, 1),
        usage(named("b", 2), 1, 2),
        usage(tag("m", "g", 9), 1, 3),
        usage(tag("n", "g", 9), 1, 4),
    ]);
    let after = profile([
        usage(named("b", 1), 1, 20),
        usage(named("a", 2), 1, 10),
        usage(elsewhere, 1, 30),
        usage(tag("n", "g", 9), 1, 40),
    ]);
    let mut changes: Vec<_> = Diff::new(&before, &after)
        .changes
        .into_iter()
        .map(|c| (c.before.bytes, c.after.bytes, c.matched))
        .collect();
    changes.sort_by_key(|c| c.0);
    assert_eq!(
        changes,
        [
            (1, 10, Match::Moved),
            (2, 20, Match::Moved),
            (3, 30, Match::Moved),
            (4, 40, Match::Same),
        ]
    );
}

/// The allocinfo text of a running program has no module paths and no columns.
#[test]
fn a_profile_without_paths_is_compared_by_files() {
    let full = [usage(tag("m", "f", 1), 1, 1), usage(tag("n", "f", 1), 1, 2)];
    let bare: Vec<Usage> = full
        .iter()
        .cloned()
        .map(|mut usage| {
            if let Owner::Tag(tag) = &mut usage.owner {
                (tag.module_path, tag.column) = (None, None);
            }
            usage
        })
        .collect();
    for (before, after) in [(full.to_vec(), bare.clone()), (bare, full.to_vec())] {
        assert_eq!(
            rows(&profile(before), &profile(after)),
            [row("f:1", Match::Same, 1, 1), row("f:1", Match::Same, 2, 2)]
        );
    }
}

/// Requested bytes less slot bytes is no difference.
#[test]
fn unlike_figures_are_not_subtracted() {
    let before = profile([usage(tag("m", "f", 1), 1, 100)]);
    let mut after = before.clone();
    after.usages[0].requested_bytes = None;
    let diff = Diff::new(&before, &after);
    let change = &diff.changes[0];
    assert_eq!((change.before.bytes, change.after.bytes), (108, 108));
    assert_eq!(change.trend(Measure::Bytes), Trend::Same);
}

#[test]
fn a_place_that_is_listed_twice_is_one() {
    let before = profile([usage(tag("m", "f", 1), 1, 1), usage(tag("m", "f", 1), 2, 2)]);
    let after = profile([usage(tag("m", "f", 1), 3, 9)]);
    assert_eq!(rows(&before, &after), [row("f:1", Match::Same, 3, 9)]);
}
