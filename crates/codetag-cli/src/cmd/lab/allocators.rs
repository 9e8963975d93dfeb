//! The allocators that a trace can be replayed on, by name.

use codetag_lab::model::Model;
use codetag_lab::slob::{self, Slob};
use codetag_lab::slub::{self, CpuPartial, DebugFlags, Path, Slub};
use std::fmt;
use std::str::FromStr;

/// What `--allocators` takes when it is not given.
pub(super) const DEFAULTS: &str = "slob,slub,slub+nomerge,slub-tiny";

/// For the help of every subcommand that takes allocators.
pub(super) const HELP: &str = "Allocators are a name and options behind plus signs:\n  \
    slob        +lists1 +lists2 (three otherwise), +norotate\n  \
    slab\n  \
    slub        +order0 … +order10 (slub_max_order), +nomerge, +debug (slub_debug=FZPU),\n              \
    +nocpu (no CPU slabs), +off +slabs +estimate (bound of the CPU partial lists)\n  \
    slub-tiny   +order0 … +order10 (1 otherwise), +nomerge";

/// An allocator with options, as `slub+nomerge+order1`.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    name: String,
    base: Base,
    options: Vec<Choice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Slob,
    Slub,
    SlubTiny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Lists(u8),
    NoRotation,
    MaxOrder(u32),
    NoMerging,
    Debug,
    NoCpuSlabs,
    CpuPartial(CpuPartial),
}

impl FromStr for Allocator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('+');
        let base = match words.next().unwrap_or_default() {
            "slob" => Base::Slob,
            "slub" => Base::Slub,
            "slub-tiny" => Base::SlubTiny,
            other => return Err(format!("there is no allocator `{other}`")),
        };
        let options = words
            .map(|word| {
                choice(word)
                    .filter(|choice| choice.is_of(base))
                    .ok_or_else(|| format!("`{word}` is no option of this allocator"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: text.to_owned(),
            base,
            options,
        })
    }
}

fn choice(word: &str) -> Option<Choice> {
    Some(match word {
        "lists1" => Choice::Lists(1),
        "lists2" => Choice::Lists(2),
        "lists3" => Choice::Lists(3),
        "norotate" => Choice::NoRotation,
        "nomerge" => Choice::NoMerging,
        "debug" => Choice::Debug,
        "nocpu" => Choice::NoCpuSlabs,
        "off" => Choice::CpuPartial(CpuPartial::Off),
        "slabs" => Choice::CpuPartial(CpuPartial::Slabs),
        "estimate" => Choice::CpuPartial(CpuPartial::Estimate),
        _ => {
            let order = word.strip_prefix("order")?.parse().ok()?;
            (order <= codetag_lab::kernel::MAX_ORDER).then_some(Choice::MaxOrder(order))?
        }
    })
}

impl Choice {
    fn is_of(self, base: Base) -> bool {
        match self {
            Self::Lists(_) | Self::NoRotation => base == Base::Slob,
            Self::MaxOrder(_) | Self::NoMerging => base != Base::Slob,
            Self::Debug | Self::NoCpuSlabs | Self::CpuPartial(_) => base == Base::Slub,
        }
    }
}

impl Allocator {
    /// A new one on a machine of so many CPUs. The size of a tag ref per object is 0 for none.
    pub(super) fn build(&self, cpus: u16, ref_bytes: u32, lazy_refs: bool) -> Box<dyn Model> {
        match self.base {
            Base::Slob => Box::new(Slob::new(self.slob().with_refs(ref_bytes))),
            Base::Slub => self.slub(slub::Config::slub(cpus), ref_bytes, lazy_refs),
            Base::SlubTiny => self.slub(slub::Config::tiny(cpus), ref_bytes, lazy_refs),
        }
    }

    fn slob(&self) -> slob::Config {
        let mut config = slob::Config::three_lists();
        for choice in &self.options {
            let rotate = config.rotate;
            config = match choice {
                Choice::Lists(1) => slob::Config::one_list(),
                Choice::Lists(2) => slob::Config::two_lists(),
                _ => config,
            };
            config.rotate = rotate && *choice != Choice::NoRotation;
        }
        config
    }

    fn slub(&self, mut config: slub::Config, ref_bytes: u32, lazy_refs: bool) -> Box<dyn Model> {
        for choice in &self.options {
            match *choice {
                Choice::MaxOrder(order) => config = config.with_max_order(order),
                Choice::NoMerging => config = config.without_merging(),
                Choice::Debug => config = config.with_debug(DebugFlags::FZPU),
                Choice::NoCpuSlabs => config.path = Path::Node,
                Choice::CpuPartial(bound) => config.path = Path::CpuSlab(bound),
                Choice::Lists(_) | Choice::NoRotation => {}
            }
        }
        Box::new(Slub::new(config.with_refs(ref_bytes, lazy_refs)))
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_are_checked() {
        for name in DEFAULTS.split(',').chain([
            "slob+lists1+norotate",
            "slub+order0+nomerge+estimate",
            "slub+debug",
            "slub+nocpu",
            "slub-tiny+order3",
        ]) {
            let allocator: Allocator = name.parse().expect(name);
            assert_eq!(allocator.to_string(), name);
            assert_eq!(allocator.build(2, 0, true).usage().pages(), 0);
        }
        for name in [
            "", "slab+", "slob+order1", "slub+lists1", "slub+order11", "slub+order", "slub-tiny+debug",
            "SLUB",
        ] {
            name.parse::<Allocator>().expect_err(name);
        }
    }
}
