//! Syntax trees: the Rust sources of this workspace, as they were when the program was built, parsed by `syn`.
//!
//! The sources are part of the program, so that the result does not depend on where the tree is, or whether it has
//! changed since. Those of the dependencies are not among them: where cargo keeps them is its own affair. The seed
//! decides the order of the files, and which of them are taken.

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use std::collections::BTreeMap;
use syn::visit::{self, Visit};

/// Names and texts.
static SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// So much of them is parsed, whole files, however much there is.
const FULL_BYTES: usize = 700_000;
const QUICK_BYTES: usize = 150_000;

pub(super) struct Trees {
    files: Vec<(&'static str, &'static str)>,
    found: Result<Counts, String>,
    lanes: [Lane; 1],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    files: u64,
    check: u64,
}

impl Trees {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let mut files = SOURCES.to_vec();
        fastrand::Rng::with_seed(setup.seed).shuffle(&mut files);
        let mut left = setup.scale.of(FULL_BYTES, QUICK_BYTES);
        files.retain(|(_, text)| {
            let is_wanted = left > 0;
            left = left.saturating_sub(text.len());
            is_wanted
        });
        Ok(Self {
            lanes: [setup.lane(files.len())?],
            files,
            found: Err("was not run".to_owned()),
        })
    }
}

impl Larger for Trees {
    fn run(&mut self) {
        let mut counts = Counts::default();
        let [lane] = &mut self.lanes;
        self.found = self
            .files
            .iter()
            .try_for_each(|(name, text)| {
                let start = lane.start();
                let tree = parse(text).map_err(|error| format!("{name}: {error}"))?;
                let names = count_names(&tree);
                at_peak();
                counts.files += 1;
                counts.check = mix::words([counts.check, sum(&names)]);
                drop((tree, names));
                lane.stop(start, 1);
                Ok(())
            })
            .map(|()| counts);
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let found = self.found.as_ref().map_err(Clone::clone)?;
        expect("files", found.files, self.files.len() as u64)?;
        Ok(Outcome {
            ops: found.files,
            check: found.check,
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn parse(text: &str) -> syn::Result<syn::File> {
    syn::parse_file(text)
}

/// How often each name stands in the tree.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn count_names(tree: &syn::File) -> BTreeMap<String, u64> {
    let mut names = Names::default();
    names.visit_file(tree);
    names.counts
}

#[derive(Default)]
struct Names {
    counts: BTreeMap<String, u64>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        *self.counts.entry(ident.to_string()).or_default() += 1;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        // The name of a function also by how many arguments it has.
        let name = format!("{}/{}", function.sig.ident, function.sig.inputs.len());
        *self.counts.entry(name).or_default() += 1;
        visit::visit_item_fn(self, function);
    }
}

fn sum(names: &BTreeMap<String, u64>) -> u64 {
    names
        .iter()
        .map(|(name, count)| mix::spread(mix::bytes(name.as_bytes())).wrapping_mul(*count))
        .fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::{FULL_BYTES, SOURCES, count_names, parse};

    #[test]
    fn names_and_functions_are_counted() {
        let tree = parse("fn f(a: u8, b: u8) -> u8 { a + b + a }").expect("Rust");
        let names = count_names(&tree);
        let of = |name: &str| names.get(name).copied();
        assert_eq!(of("a"), Some(3));
        assert_eq!(of("u8"), Some(3));
        assert_eq!(of("f/2"), Some(1));
        assert_eq!(of("c"), None);
    }

    #[test]
    fn the_sources_are_those_of_the_workspace() {
        let bytes: usize = SOURCES.iter().map(|(_, text)| text.len()).sum();
        assert!(bytes > FULL_BYTES, "{bytes}");
        let own = SOURCES
            .iter()
            .find(|(name, _)| *name == "benches/workload/src/larger/trees.rs");
        assert_eq!(own.map(|(_, text)| *text), Some(include_str!("trees.rs")));
        assert!(SOURCES.is_sorted());
    }
}
