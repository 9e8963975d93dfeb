//! The printed reports against the account.

use crate::check::{Account, can_track};
use crate::labels;
use crate::slots::slots;
use crate::watch;

/// Numbers of a line: runs of digits, with the sign before them.
fn numbers(line: &str) -> impl Iterator<Item = i64> + '_ {
    line.split(|c: char| !c.is_ascii_digit() && c != '-')
        .filter_map(|word| word.parse().ok())
}

/// The line that begins with a label.
fn line<'t>(text: &'t str, label: &str) -> &'t str {
    let is_it = |l: &&str| {
        let rest = l.trim_start().strip_prefix(label);
        rest.is_some_and(|r| r.starts_with(':') || r.starts_with("  "))
    };
    text.lines()
        .find(is_it)
        .unwrap_or_else(|| panic!("no line {label:?} in\n{text}"))
}

#[track_caller]
fn says(text: &str, label: &str, expected: u64) {
    let line = line(text, label);
    let found = numbers(line).any(|n| n == expected.cast_signed());
    assert!(found, "{expected} is not in {line:?}");
}

/// What a size like `1.25 MiB` stands for, and a unit of its last digit.
fn size(number: &str, unit: &str) -> (f64, f64) {
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => panic!("a unit of memory: {unit:?}"),
    };
    let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
    let unit = 1.0 / 10_f64.powi(decimals.try_into().unwrap());
    (number.parse::<f64>().unwrap() * factor, unit * factor)
}

/// Nothing allocates or frees now: the page and the list must say what the account says.
pub(crate) fn quiet_texts(at: &str) {
    slots();
    let account = Account::now();
    let page = codetag::show_mem();
    let page = page.to_string();
    the_page(at, &page, &account);
    drop(page);
    let account = Account::now();
    let list = codetag::allocinfo();
    let list = list.to_string();
    the_list(at, &list, &account);
}

fn the_page(at: &str, page: &str, account: &Account) {
    says(page, "tracked requested", account.requested_bytes);
    says(page, "tracked waste", account.waste_bytes);
    says(page, "untracked slots", account.untracked_small_bytes);
    says(page, "large objects", account.large_bytes);
    says(page, "unaccounted", 0);
    assert!(!page.contains("motion"), "{at}: quiet");
    let (tagged_objs, tagged_bytes) = account.tags[1..].iter().fold((0, 0), |(objs, bytes), t| {
        (objs + t.live_objs, bytes + t.live_bytes)
    });
    for (label, bytes, objs) in [
        ("tagged", tagged_bytes, tagged_objs),
        (
            "untagged",
            account.tags[0].live_bytes,
            account.tags[0].live_objs,
        ),
        (
            "untracked",
            account.untracked_slot_bytes,
            account.untracked_objs,
        ),
    ] {
        says(page, label, bytes);
        says(page, label, objs);
    }
    let (_, rest) = page
        .split_once("Memory allocations:\n")
        .expect("a list of tags");
    let (owners, rest) = rest.split_once("Slab info:\n").expect("a table of classes");
    the_owners(at, owners, account);
    let mut rows = 0;
    for row in rest.lines().skip(1) {
        let row: Vec<u64> = row.split_whitespace().map(|w| w.parse().unwrap()).collect();
        let [
            slot_bytes,
            slabs,
            slots_there,
            live,
            tracked,
            free,
            ext_bytes,
        ] = row[..]
        else {
            panic!("{at}: seven columns: {row:?}");
        };
        let class = slots().index(slot_bytes.try_into().unwrap()).unwrap();
        assert_eq!((live, tracked), account.classes[class], "{at}: {row:?}");
        assert_eq!(slots_there, live + free, "{at}: {row:?}");
        assert_eq!(
            (slots_there % slabs, ext_bytes % slabs),
            (0, 0),
            "{at}: {row:?}"
        );
        rows += u64::from(live > 0);
    }
    let expected = account.classes.iter().filter(|c| c.0 > 0).count();
    assert_eq!(
        rows, expected as u64,
        "{at}: rows of classes with anything live"
    );
}

/// The tags of the page: at most ten, the largest first.
fn the_owners(at: &str, owners: &str, account: &Account) {
    let owning = account.tags[1..].iter().filter(|t| t.live_objs > 0).count();
    assert_eq!(owners.lines().count(), owning.min(10), "{at}:\n{owners}");
    let mut last = u64::MAX;
    for line in owners.lines() {
        let label = label_in(line).unwrap_or_else(|| panic!("{at}: whose is {line:?}"));
        let usage = account.tags[label];
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap();
        let (said, last_digit) = size(word(), word());
        assert!(
            (said - usage.live_bytes as f64).abs() <= last_digit,
            "{at}: {line:?} {usage:?}"
        );
        assert_eq!(word().parse(), Ok(usage.live_objs), "{at}: {line:?}");
        assert!(
            usage.live_bytes <= last,
            "{at}: the largest first:\n{owners}"
        );
        last = usage.live_bytes;
    }
}

/// The label of the tag that a line names as `FILE:LINE [CRATE] func:FUNC`.
fn label_in(line: &str) -> Option<usize> {
    let place = |tag: &codetag::CodeTag| {
        let (file, line, krate) = (tag.file(), tag.line(), tag.krate());
        format!("{file}:{line} [{krate}] func:{}", tag.function())
    };
    let mut tags = codetag::tags().filter(|tag| line.contains(&place(tag)));
    let tag = tags.next()?;
    assert!(tags.next().is_none(), "two tags in {line:?}");
    labels::of(tag)
}

fn the_list(at: &str, list: &str, account: &Account) {
    let mut lines = list.lines();
    assert_eq!(lines.next(), Some("allocinfo - version: 2.0"), "{at}");
    assert_eq!(
        lines.next(),
        Some("#     <size>  <calls> <tag info>"),
        "{at}"
    );
    let mut seen = vec![0; labels::LABELS];
    let mut untracked = 0;
    for line in lines {
        assert!(
            line.ends_with(' '),
            "{at}: the kernel's trailing space: {line:?}"
        );
        let mut words = line.split_whitespace();
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (bytes, objs) = (number(), number());
        let requested = line
            .split_once("requested:")
            .map(|(_, n)| n.trim().parse().unwrap());
        if line.contains("<untracked>:0 func:untracked accurate:no ") {
            untracked += 1;
            assert_eq!(
                (bytes, objs),
                (account.untracked_slot_bytes, account.untracked_objs),
                "{at}"
            );
            continue;
        }
        let is_untagged = line.contains("<untagged>:0 func:untagged ");
        let Some(label) = (if is_untagged { Some(0) } else { label_in(line) }) else {
            assert_eq!((bytes, objs), (0, 0), "{at}: whose is {line:?}");
            continue;
        };
        let usage = account.tags[label];
        seen[label] += 1;
        assert_eq!(
            (bytes, objs, requested),
            (usage.slot_bytes, usage.live_objs, Some(usage.live_bytes)),
            "{at}: {line:?}"
        );
    }
    assert_eq!(untracked, 1, "{at}:\n{list}");
    // Tags that own nothing are printed too, when there are any tags.
    let once = usize::from(can_track() || watch::is_on() || codetag::tags().next().is_some());
    assert_eq!(seen[0], 1, "{at}: untagged");
    assert!(
        seen[1..].iter().all(|&n| n == once),
        "{at}: each tag once: {seen:?}\n{list}"
    );
}
