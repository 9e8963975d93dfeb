//! What changed between two profiles.
//!
//! Two profiles of one build have the same tags. In those of two builds lines have moved: a tag is then
//! known by its crate, module path, function and name. Where a profile has no module paths, as the
//! kernel's have not, the file stands for them.

use crate::measure::{Measure, Sums};
use crate::profile::{Owner, Profile, Tag, Usage};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What changed between two profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// Every owner of either, those that are gone last.
    pub changes: Vec<Change>,
    /// The sums over all owners of what they had.
    pub before: Sums,
    /// The sums over all owners of what they have.
    pub after: Sums,
}

/// One owner, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The owner, as it is after; as it was before if it is gone.
    pub owner: Owner,
    /// How the two were found to be the same.
    pub matched: Match,
    /// What it had. *Bytes* are slot bytes here if the requested ones are not known on both sides.
    pub before: Sums,
    /// What it has.
    pub after: Sums,
    /// Whether the figures of both sides are exact.
    pub is_accurate: bool,
}

/// How an owner was found in the other profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// At the same place.
    Same,
    /// At another line or file, by crate, module path, function and name.
    Moved,
    /// As [`Moved`](Self::Moved), but the function has more tags with this name on one side than on the
    /// other, and which is which cannot be told: this is their sum.
    Merged {
        /// Tags before.
        before: usize,
        /// Tags after.
        after: usize,
    },
    /// Only after.
    OnlyAfter,
    /// Only before.
    OnlyBefore,
}

/// What became of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// Had nothing before.
    New,
    /// Has nothing after.
    Gone,
    /// Has more.
    Grown,
    /// Has less.
    Shrunk,
    /// Has as much.
    Same,
}

impl Change {
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

impl Trend {
    pub(crate) fn of(before: &Sums, after: &Sums, measure: Measure) -> Self {
        match after.get(measure) - before.get(measure) {
            _ if before.is_zero() && !after.is_zero() => Self::New,
            _ if after.is_zero() && !before.is_zero() => Self::Gone,
            1.. => Self::Grown,
            0 => Self::Same,
            _ => Self::Shrunk,
        }
    }
}

impl Diff {
    /// Compares two profiles.
    #[must_use]
    pub fn new(before: &Profile, after: &Profile) -> Self {
        let is_known_by_path = [before, after]
            .iter()
            .flat_map(|profile| &profile.usages)
            .filter_map(|usage| usage.owner.tag())
            .all(|tag| tag.module_path.is_some());
        let mut lots: HashMap<Key<'_>, Lot<'_>> = HashMap::new();
        let mut order: Vec<Key<'_>> = Vec::new();
        for (side, profile) in [(Side::After, after), (Side::Before, before)] {
            for usage in &profile.usages {
                let key = Key::new(&usage.owner, is_known_by_path);
                let lot = lots.entry(key).or_insert_with(|| {
                    order.push(key);
                    Lot::default()
                });
                lot.add(side, usage);
            }
        }
        let mut changes = Vec::with_capacity(after.usages.len());
        for key in order {
            if let Some(lot) = lots.remove(&key) {
                lot.compare(&mut changes);
            }
        }
        // Stable: what is only before comes last and else keeps its order.
        changes.sort_by_key(|change| change.matched == Match::OnlyBefore);
        Self {
            before: changes.iter().map(|change| change.before).sum(),
            after: changes.iter().map(|change| change.after).sum(),
            changes,
        }
    }

    /// The changes, the largest of `measure` first, up or down; those that are equal by their owners.
    #[must_use]
    pub fn by_size(&self, measure: Measure) -> Vec<&Change> {
        let mut changes: Vec<&Change> = self.changes.iter().collect();
        changes.sort_by_key(|c| (Reverse(c.delta().get(measure).abs()), &c.owner));
        changes
    }

    /// Tags that were matched although their lines have moved.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.changes
            .iter()
            .map(|change| match change.matched {
                Match::Moved => 1,
                Match::Merged { before, after } => before.max(after),
                Match::Same | Match::OnlyAfter | Match::OnlyBefore => 0,
            })
            .sum()
    }
}

/// What makes tags of two builds the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key<'p> {
    Tags {
        krate: Option<&'p str>,
        path: &'p str,
        function: &'p str,
        name: Option<&'p str>,
    },
    Untagged,
    Untracked,
}

impl<'p> Key<'p> {
    fn new(owner: &'p Owner, is_known_by_path: bool) -> Self {
        match owner {
            Owner::Untagged => Self::Untagged,
            Owner::Untracked => Self::Untracked,
            Owner::Tag(tag) => Self::Tags {
                krate: tag.krate.as_deref(),
                path: match &tag.module_path {
                    Some(path) if is_known_by_path => path,
                    _ => &tag.file,
                },
                function: &tag.function,
                name: tag.name.as_deref(),
            },
        }
    }
}

/// Where a tag stands. Columns count only where both profiles know them.
type Place<'p> = (&'p str, u32, Option<u32>);

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// The tags of one key, in the order of each profile.
#[derive(Debug, Default)]
struct Lot<'p> {
    before: Vec<Spot<'p>>,
    after: Vec<Spot<'p>>,
}

/// What one place has: a place may be listed more than once.
#[derive(Clone, Debug)]
struct Spot<'p> {
    owner: &'p Owner,
    place: Place<'p>,
    bytes: Bytes,
    slot_bytes: i128,
    live_objs: i128,
    is_accurate: bool,
}

/// Requested bytes, if known of all, and what stands for them else.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    requested: Option<i128>,
    mixed: i128,
}

impl<'p> Lot<'p> {
    fn add(&mut self, side: Side, usage: &'p Usage) {
        match side {
            Side::Before => self.before.push(Spot::new(usage)),
            Side::After => self.after.push(Spot::new(usage)),
        }
    }

    fn compare(self, changes: &mut Vec<Change>) {
        let has_columns = self
            .before
            .iter()
            .chain(&self.after)
            .all(|spot| spot.place.2.is_some());
        let before = by_place(self.before, has_columns);
        let after = by_place(self.after, has_columns);
        // One build: a tag that one side lacks owned nothing there, or was not entered yet.
        let is_one_build = before.iter().all(|spot| find(&after, spot).is_some())
            || after.iter().all(|spot| find(&before, spot).is_some());
        if is_one_build {
            for spot in &after {
                changes.push(match find(&before, spot) {
                    Some(before) => change(before, spot, Match::Same),
                    None => only(spot, Side::After),
                });
            }
            let gone = before.iter().filter(|spot| find(&after, spot).is_none());
            changes.extend(gone.map(|spot| only(spot, Side::Before)));
        } else if before.len() == after.len() {
            for (before, after) in before.iter().zip(&after) {
                let is_same = before.place == after.place;
                let matched = if is_same { Match::Same } else { Match::Moved };
                changes.push(change(before, after, matched));
            }
        } else if let (Some(before_sum), Some(after_sum)) = (sum(&before), sum(&after)) {
            let matched = Match::Merged {
                before: before.len(),
                after: after.len(),
            };
            changes.push(change(&before_sum, &after_sum, matched));
        }
    }
}

/// The spots in the order of their places, each place once.
fn by_place(mut spots: Vec<Spot<'_>>, has_columns: bool) -> Vec<Spot<'_>> {
    if !has_columns {
        for spot in &mut spots {
            spot.place.2 = None;
        }
    }
    spots.sort_by_key(|spot| spot.place);
    spots.dedup_by(|next, spot| {
        let is_same = next.place == spot.place;
        if is_same {
            spot.add(next);
        }
        is_same
    });
    spots
}

/// The one of `spots`, which are in order, that is where `spot` is.
fn find<'s, 'p>(spots: &'s [Spot<'p>], spot: &Spot<'p>) -> Option<&'s Spot<'p>> {
    let index = spots.binary_search_by_key(&spot.place, |s| s.place).ok()?;
    Some(&spots[index])
}

fn sum<'p>(spots: &[Spot<'p>]) -> Option<Spot<'p>> {
    let (first, rest) = spots.split_first()?;
    Some(rest.iter().fold(first.clone(), |mut sum, spot| {
        sum.add(spot);
        sum
    }))
}

impl<'p> Spot<'p> {
    fn new(usage: &'p Usage) -> Self {
        let place = usage.owner.tag().map_or(("", 0, None), |tag: &Tag| {
            (&*tag.file, tag.line, tag.column)
        });
        Self {
            owner: &usage.owner,
            place,
            bytes: Bytes {
                requested: usage.requested_bytes.map(i128::from),
                mixed: usage.bytes().into(),
            },
            slot_bytes: usage.slot_bytes.into(),
            live_objs: usage.live_objs.into(),
            is_accurate: usage.is_accurate,
        }
    }

    fn add(&mut self, other: &Self) {
        self.bytes.mixed += other.bytes.mixed;
        self.bytes.requested = self
            .bytes
            .requested
            .zip(other.bytes.requested)
            .map(|(a, b)| a + b);
        self.slot_bytes += other.slot_bytes;
        self.live_objs += other.live_objs;
        self.is_accurate &= other.is_accurate;
    }

    fn sums(&self, bytes: i128) -> Sums {
        Sums {
            bytes,
            slot_bytes: self.slot_bytes,
            live_objs: self.live_objs,
        }
    }
}

fn change(before: &Spot<'_>, after: &Spot<'_>, matched: Match) -> Change {
    let (bytes_before, bytes_after) = match (before.bytes.requested, after.bytes.requested) {
        (Some(before), Some(after)) => (before, after),
        // Unlike figures have no difference.
        _ => (before.slot_bytes, after.slot_bytes),
    };
    Change {
        owner: after.owner.clone(),
        matched,
        before: before.sums(bytes_before),
        after: after.sums(bytes_after),
        is_accurate: before.is_accurate && after.is_accurate,
    }
}

fn only(spot: &Spot<'_>, side: Side) -> Change {
    let sums = spot.sums(spot.bytes.mixed);
    let (matched, before, after) = match side {
        Side::Before => (Match::OnlyBefore, sums, Sums::default()),
        Side::After => (Match::OnlyAfter, Sums::default(), sums),
    };
    Change {
        owner: spot.owner.clone(),
        matched,
        before,
        after,
        is_accurate: spot.is_accurate,
    }
}
