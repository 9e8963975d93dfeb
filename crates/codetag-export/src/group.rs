//! Owners put together: by function, module, file or crate.

use crate::diff::{Diff, Match, Trend};
use crate::measure::{Measure, Sums};
use crate::profile::{Owner, Profile, Tag, Usage, visible};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What owners are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum By {
    /// Each tag by itself.
    #[default]
    Tag,
    /// The function: its module path, or its file where the path is not known, and its name.
    Function,
    /// The module path; the crate where it is not known.
    Module,
    /// The source file.
    File,
    /// The crate; of the kernel the module.
    Crate,
}

/// Owners with the same label, and what they have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they have in common, control characters escaped.
    pub label: String,
    /// What they have.
    pub sums: Sums,
    /// What was requested, if that is known of all of them.
    pub requested_bytes: Option<i128>,
    /// How many owners.
    pub owners: usize,
    /// Whether the figures of all of them are exact.
    pub is_accurate: bool,
    /// Unknown pairs, if it is one owner.
    pub extra: Vec<(String, String)>,
}

/// How a tag without a crate is called: code that is built into the kernel.
pub const BUILT_IN: &str = "built-in";

impl By {
    /// The label of `owner`.
    #[must_use]
    pub fn label(self, owner: &Owner) -> String {
        let Owner::Tag(tag) = owner else {
            return owner.to_string();
        };
        match self {
            Self::Tag => tag.to_string(),
            Self::Function => visible(&qualified_function(tag)).to_string(),
            Self::Module => visible(tag.module_path.as_deref().unwrap_or(krate(tag))).to_string(),
            Self::File => visible(&tag.file).to_string(),
            Self::Crate => visible(krate(tag)).to_string(),
        }
    }
}

fn krate(tag: &Tag) -> &str {
    tag.krate.as_deref().unwrap_or(BUILT_IN)
}

/// The function with its module path: `my_crate::inner::f`; with its crate and file where there is no
/// path: `mm/slub.c:alloc_slab_page`.
pub(crate) fn qualified_function(tag: &Tag) -> String {
    match (&tag.module_path, &tag.krate) {
        (Some(path), _) if path.is_empty() => tag.function.clone(),
        (Some(path), _) => format!("{path}::{}", tag.function),
        (None, Some(krate)) => format!("{krate}:{}:{}", tag.file, tag.function),
        (None, None) => format!("{}:{}", tag.file, tag.function),
    }
}

impl Profile {
    /// The sums over all owners.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.usages.iter().map(Sums::from).sum()
    }

    /// The owners put together, the largest of `sort` first, equal ones by their labels. Groups that own
    /// nothing are there too.
    #[must_use]
    pub fn groups(&self, by: By, sort: Measure) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for usage in &self.usages {
            let label = by.label(&usage.owner);
            match places.get(&label) {
                Some(&place) => groups[place].add(usage),
                None => {
                    places.insert(label.clone(), groups.len());
                    groups.push(Group::new(label, usage));
                }
            }
        }
        groups.sort_by(|a, b| {
            let rank = |group: &Group| Reverse(group.sums.get(sort));
            rank(a).cmp(&rank(b)).then_with(|| a.label.cmp(&b.label))
        });
        groups
    }
}

impl Group {
    fn new(label: String, usage: &Usage) -> Self {
        Self {
            label,
            sums: usage.into(),
            requested_bytes: usage.requested_bytes.map(i128::from),
            owners: 1,
            is_accurate: usage.is_accurate,
            extra: usage.extra.clone(),
        }
    }

    fn add(&mut self, usage: &Usage) {
        self.sums += usage.into();
        self.requested_bytes = self
            .requested_bytes
            .zip(usage.requested_bytes)
            .map(|(sum, bytes)| sum + i128::from(bytes));
        self.owners += 1;
        self.is_accurate &= usage.is_accurate;
        if self.extra != usage.extra {
            self.extra.clear();
        }
    }
}

/// Changes with the same label, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeGroup {
    /// What the owners have in common, control characters escaped.
    pub label: String,
    /// What they had.
    pub before: Sums,
    /// What they have.
    pub after: Sums,
    /// How many owners.
    pub owners: usize,
    /// Whether the figures of all of them are exact, on both sides.
    pub is_accurate: bool,
    /// How the owner was found in the other profile, if it is one.
    pub matched: Option<Match>,
}

impl Diff {
    /// The changes put together, the largest of `sort` first, up or down, equal ones by their labels.
    #[must_use]
    pub fn groups(&self, by: By, sort: Measure) -> Vec<ChangeGroup> {
        let mut groups: Vec<ChangeGroup> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for change in &self.changes {
            let label = by.label(&change.owner);
            // Each tag stays by itself, even if two look the same.
            match places.get(&label).filter(|_| by != By::Tag) {
                Some(&place) => {
                    let group = &mut groups[place];
                    group.before += change.before;
                    group.after += change.after;
                    group.owners += 1;
                    group.is_accurate &= change.is_accurate;
                    group.matched = None;
                }
                None => {
                    places.insert(label.clone(), groups.len());
                    groups.push(ChangeGroup {
                        label,
                        before: change.before,
                        after: change.after,
                        owners: 1,
                        is_accurate: change.is_accurate,
                        matched: Some(change.matched),
                    });
                }
            }
        }
        groups.sort_by(|a, b| {
            let rank = |group: &ChangeGroup| Reverse(group.delta().get(sort).abs());
            rank(a).cmp(&rank(b)).then_with(|| a.label.cmp(&b.label))
        });
        groups
    }
}

impl ChangeGroup {
    /// What was added; negative if taken away.
    #[must_use]
    pub fn delta(&self) -> Sums {
        self.after.minus(&self.before)
    }

    /// What became of it, in `measure`.
    #[must_use]
    pub fn trend(&self, measure: Measure) -> Trend {
        Trend::of(&self.before, &self.after, measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(krate: Option<&str>, path: Option<&str>, file: &str, function: &str) -> Usage {
        Usage {
            owner: Owner::Tag(Tag {
                krate: krate.map(str::to_owned),
                module_path: path.map(str::to_owned),
                function: function.to_owned(),
                file: file.to_owned(),
                line: 1,
                ..Tag::default()
            }),
            live_objs: 1,
            requested_bytes: Some(10),
            slot_bytes: 16,
            is_accurate: true,
            extra: Vec::new(),
        }
    }

    fn labels(profile: &Profile, by: By) -> Vec<(String, i128)> {
        let groups = profile.groups(by, Measure::Bytes);
        groups
            .into_iter()
            .map(|g| (g.label, g.sums.bytes))
            .collect()
    }

    #[test]
    fn owners_are_put_together_by_what_they_have_in_common() {
        let profile = Profile {
            usages: vec![
                usage(Some("a"), Some("a::x"), "src/x.rs", "f"),
                usage(Some("a"), Some("a::y"), "src/y.rs", "f"),
                usage(Some("a"), Some("a::y"), "src/y.rs", "g"),
                usage(None, None, "mm/a.c", "f"),
            ],
            ..Profile::default()
        };
        let expect = |by, expected: &[(&str, i128)]| {
            let expected: Vec<(String, i128)> =
                expected.iter().map(|&(l, n)| (l.to_owned(), n)).collect();
            assert_eq!(labels(&profile, by), expected, "{by:?}");
        };
        expect(By::Crate, &[("a", 30), (BUILT_IN, 10)]);
        expect(By::Module, &[("a::y", 20), ("a::x", 10), (BUILT_IN, 10)]);
        expect(
            By::File,
            &[("src/y.rs", 20), ("mm/a.c", 10), ("src/x.rs", 10)],
        );
        expect(
            By::Function,
            &[
                ("a::x::f", 10),
                ("a::y::f", 10),
                ("a::y::g", 10),
                ("mm/a.c:f", 10),
            ],
        );
        assert_eq!(labels(&profile, By::Tag).len(), 4);
    }

    #[test]
    fn what_was_requested_is_known_only_if_it_is_known_of_all() {
        let mut profile = Profile {
            usages: vec![usage(None, None, "a.c", "f"), usage(None, None, "a.c", "g")],
            ..Profile::default()
        };
        let group = |profile: &Profile| profile.groups(By::File, Measure::Bytes).remove(0);
        assert_eq!(group(&profile).requested_bytes, Some(20));
        profile.usages[1].requested_bytes = None;
        profile.usages[1].is_accurate = false;
        let group = group(&profile);
        assert_eq!((group.requested_bytes, group.sums.bytes), (None, 26));
        assert!(!group.is_accurate);
    }
}
