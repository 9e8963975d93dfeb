//! Printed pages, held without an allocation, and what each must look like.

use std::fmt;

/// Room for a page or a list of tags.
pub(crate) struct Text {
    bytes: [u8; 32 << 10],
    len: usize,
}

impl Text {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; 32 << 10],
            len: 0,
        }
    }

    /// What `report` prints.
    pub(crate) fn of(report: &impl fmt::Display) -> Self {
        let mut text = Self::new();
        text.print(report);
        text
    }

    /// Prints over what was there.
    pub(crate) fn print(&mut self, report: &impl fmt::Display) {
        self.len = 0;
        fmt::write(self, format_args!("{report}")).expect("room for it");
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The headings of a page, in their order.
pub(crate) const HEADINGS: [&str; 6] = [
    "Heap:",
    "Metadata outside the heap:",
    "Profiling:",
    "Coverage:",
    "Memory allocations:",
    "Slab info:",
];

/// What stands behind `label` in its line.
#[track_caller]
pub(crate) fn line<'t>(page: &'t str, label: &str) -> &'t str {
    let behind = |l: &'t str| l.trim_start().strip_prefix(label)?.strip_prefix(": ");
    let mut found = page.lines().filter_map(behind);
    let line = found
        .next()
        .unwrap_or_else(|| panic!("no line {label:?} in\n{page}"));
    assert!(found.next().is_none(), "two lines {label:?} in\n{page}");
    line.trim_start()
}

/// The exact figure in the line of `label`.
#[track_caller]
pub(crate) fn figure(page: &str, label: &str) -> i128 {
    let exact = line(page, label)
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    exact
        .unwrap_or_else(|| panic!("no figure for {label:?} in\n{page}"))
        .0
        .parse()
        .unwrap()
}

/// The lines between a heading and the next one.
pub(crate) fn section<'t>(page: &'t str, heading: &str) -> impl Iterator<Item = &'t str> {
    let inside = page.lines().skip_while(move |l| *l != heading).skip(1);
    inside.take_while(|l| !HEADINGS.contains(l))
}

/// Asserts that a page is there from its first to its last line, and adds up.
#[track_caller]
pub(crate) fn assert_whole(page: &str) {
    let headings = page.lines().filter(|l| HEADINGS.contains(l));
    assert!(headings.eq(HEADINGS), "{page}");
    assert!(page.ends_with('\n') && !page.contains("\n\n"), "{page}");
    let figures =
        section(page, "Heap:").map(|l| figure(page, l.split_once(':').unwrap().0.trim_start()));
    let mut figures = figures.collect::<Vec<_>>().into_iter();
    let obtained = figures.next().unwrap();
    // The eleven parts, and the remainder.
    let parts: i128 = figures.by_ref().take(12).sum();
    assert_eq!(parts, obtained, "{page}");
    assert_eq!(figures.len(), 1, "returned, and nothing else: {page}");
    assert!(line(page, "state").contains(", for "), "{page}");
    let rows = section(page, "Slab info:").skip(1);
    for row in rows {
        let numbers: Vec<u64> = row.split_whitespace().map(|w| w.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 7, "{page}");
    }
}

/// The same of a page that was made while nothing else ran.
#[track_caller]
pub(crate) fn assert_quiet(page: &str) {
    assert_whole(page);
    assert_eq!(figure(page, "unaccounted"), 0, "{page}");
    assert!(!page.contains("motion"), "{page}");
}
