//! The workloads that a build of the workload program has, and which of them one child runs.

use crate::child;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// As in `small.paired`.
    pub name: String,
    /// As in `small`; the larger programs are in `larger`.
    pub family: String,
}

impl Workload {
    /// What a table calls it.
    pub fn title(&self) -> &str {
        let known = TITLES.iter().find(|(name, _)| *name == self.name);
        known.map_or(&self.name, |(_, title)| title)
    }
}

const TITLES: &[(&str, &str)] = &[
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
    ("larger.json", "JSON document"),
    ("larger.syn", "syntax trees"),
    ("larger.words", "word index"),
    (
        "larger.hackbench",
        "hackbench: groups of senders and receivers",
    ),
    ("larger.larson", "larson: objects handed between threads"),
    ("larger.async", "async server"),
];

/// The family whose workloads are programs of their own.
pub const LARGER: &str = "larger";

/// What is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order of the tables.
    pub workloads: Vec<Workload>,
    /// The prefixes that children are given: a family, or one larger workload. Each is a child of its own, so
    /// that one that fails takes no other with it.
    pub units: Vec<String>,
}

impl Plan {
    /// Asks the binary at `path` for its workloads and takes those that start with `only`.
    ///
    /// # Errors
    ///
    /// A sentence: what the child said, or that none starts so.
    pub fn ask(path: &Path, only: &str) -> Result<Self, String> {
        let ended = child::run(Command::new(path).arg("list"), Duration::from_secs(60))
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let all: Option<Vec<Workload>> = text.lines().map(workload).collect();
        let all = all.ok_or("the workload program's list has lines that name no workload")?;
        let plan = Self::of(&all, only);
        if plan.workloads.is_empty() {
            let names: Vec<&str> = all.iter().map(|workload| workload.name.as_str()).collect();
            return Err(format!(
                "no workload starts with {only}: there are {}",
                names.join(", ")
            ));
        }
        Ok(plan)
    }

    fn of(all: &[Workload], only: &str) -> Self {
        let mut plan = Self::default();
        for workload in all
            .iter()
            .filter(|workload| workload.name.starts_with(only))
        {
            let whole = format!("{}.", workload.family);
            let unit = if workload.family == LARGER || only.len() > whole.len() {
                workload.name.clone()
            } else {
                whole
            };
            plan.workloads.push(workload.clone());
            if !plan.units.contains(&unit) {
                plan.units.push(unit);
            }
        }
        plan
    }

    /// The names of the workloads of a family.
    pub fn family<'p>(&'p self, family: &'p str) -> impl Iterator<Item = &'p str> {
        let of = self
            .workloads
            .iter()
            .filter(move |workload| workload.family == family);
        of.map(|workload| workload.name.as_str())
    }

    /// Whether `name` is measured; children may run more than was asked for, since names can be prefixes.
    pub fn has(&self, name: &str) -> bool {
        self.workloads.iter().any(|workload| workload.name == name)
    }
}

/// Of one line of the list.
fn workload(line: &str) -> Option<Workload> {
    let mut words = line.strip_prefix("workload ")?.split(' ');
    let workload = Workload {
        name: words.next()?.to_owned(),
        family: words.next()?.strip_prefix("family=")?.to_owned(),
    };
    words.next().is_none().then_some(workload)
}

#[cfg(test)]
mod tests {
    use super::{Plan, workload};

    #[test]
    fn a_family_is_one_child_and_each_larger_workload_is() {
        let names = [
            "small.paired family=small",
            "small.batch100 family=small",
            "large.paired family=large",
            "larger.json family=larger",
            "larger.syn family=larger",
        ];
        let all: Vec<_> = names
            .iter()
            .map(|name| workload(&format!("workload {name}")).expect("a workload"))
            .collect();
        let units = |only| Plan::of(&all, only).units;
        assert_eq!(units(""), ["small.", "large.", "larger.json", "larger.syn"]);
        assert_eq!(units("large"), ["large.", "larger.json", "larger.syn"]);
        assert_eq!(units("small.p"), ["small.paired"]);
        assert_eq!(units("larger.s"), ["larger.syn"]);
        assert!(units("none").is_empty());
        assert_eq!(workload("workload x"), None);
        assert_eq!(workload("hello"), None);
    }
}
