//! What the attribute adds to a function: a generated crate of 1,000 functions, built with tags and without.
//!
//! Functions stand in a crate other than codetag, as everybody's do. Five bodies in turn: filling a `Vec`, a `Box`,
//! `format!`, a loop without allocation, and `?` with an early return. Bytes of functions are those of the generated
//! crate's symbols; what codetag's own runtime takes once per program is in the other columns only.

use crate::cargo::{BUILD_LIMIT, MESSAGES, cargo, executable, keep};
use crate::child;
use crate::objsize::{self, Functions, Measured};
use crate::progress::Progress;
use crate::tree::Tree;
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// How many functions there are.
pub const FUNCTIONS: usize = 1_000;

/// The generated package and its crate.
const PACKAGE: &str = "tagged-functions";
const CRATE: &str = "tagged_functions";

/// How the crate is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `off` or `fat`.
    pub lto: &'static str,
    /// 1 or 16.
    pub codegen_units: u32,
    /// `abort` or `unwind`.
    pub panic: &'static str,
}

/// `off-16-abort`: as files of the profile are called, and as one names it.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lto,
            codegen_units,
            panic,
        } = self;
        write!(f, "{lto}-{codegen_units}-{panic}")
    }
}

/// One of [`profiles`], by its name.
///
/// # Errors
///
/// A sentence with the names there are.
impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut known = profiles();
        known
            .find(|profile| profile.to_string() == name)
            .ok_or_else(|| {
                let names: Vec<String> = profiles().map(|known| known.to_string()).collect();
                format!("there is no profile {name:?}, only {}", names.join(", "))
            })
    }
}

/// All there are.
pub fn profiles() -> impl Iterator<Item = Profile> {
    ["abort", "unwind"].into_iter().flat_map(|panic| {
        ["off", "fat"].into_iter().flat_map(move |lto| {
            [1, 16].map(|codegen_units| Profile {
                lto,
                codegen_units,
                panic,
            })
        })
    })
}

/// One build.
#[derive(Clone, Debug)]
pub struct Built {
    /// The functions of the generated crate.
    pub functions: Functions,
    /// The whole program.
    pub program: Measured,
}

/// One profile's two builds.
#[derive(Clone, Debug)]
pub struct Pair {
    /// How both are compiled.
    pub profile: Profile,
    /// Tags compiled out.
    pub off: Built,
    /// Tags compiled in.
    pub tagged: Built,
}

impl Pair {
    /// Bytes of `.text` that a tag adds to its function, on the mean.
    pub fn text_per_function(&self) -> f64 {
        self.per_function(|built| built.functions.bytes)
    }

    /// What tags add per function to some figure of the program.
    pub fn per_function(&self, of: impl Fn(&Built) -> u64) -> f64 {
        (of(&self.tagged) as f64 - of(&self.off) as f64) / FUNCTIONS as f64
    }

    /// Bytes of a tag with its relocation, strings apart.
    pub fn data_per_tag(&self) -> Option<f64> {
        let tags = self.tagged.program.tags;
        (tags.tags > 0).then(|| (tags.section_bytes + tags.reloc_bytes) as f64 / tags.tags as f64)
    }
}

/// Builds and measures `profiles`; those that cannot be built are errors.
pub fn measure(tree: &Tree, profiles: &[Profile], progress: &Progress) -> (Vec<Pair>, Vec<String>) {
    let (mut pairs, mut errors) = (Vec::new(), Vec::new());
    let dir = tree.target.join("text");
    if let Err(error) = generate(tree, &dir) {
        errors.push(format!(
            "text per function: {} cannot be written: {error}",
            dir.display()
        ));
        return (pairs, errors);
    }
    for &profile in profiles {
        if child::is_interrupted() {
            break;
        }
        let name = format!(
            "lto {}, {} codegen units, panic {}",
            profile.lto, profile.codegen_units, profile.panic
        );
        progress.say(&format!("building {FUNCTIONS} functions: {name}"));
        let mut both = [true, false].map(|is_off| {
            let built = build(&dir, profile, is_off);
            progress.step();
            built
        });
        match (
            std::mem::replace(&mut both[0], Err(String::new())),
            std::mem::replace(&mut both[1], Err(String::new())),
        ) {
            (Ok(off), Ok(tagged)) => pairs.push(Pair {
                profile,
                off,
                tagged,
            }),
            _ if child::is_interrupted() => {}
            (Err(error), _) | (_, Err(error)) => {
                errors.push(format!("text per function, {name}: {error}"));
            }
        }
    }
    (pairs, errors)
}

/// The steps of [`measure`].
pub fn steps(profiles: &[Profile]) -> usize {
    2 * profiles.len()
}

fn generate(tree: &Tree, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir.join("src"))?;
    let codetag = tree.root.join("crates/codetag");
    fs::write(
        dir.join("Cargo.toml"),
        format!(
            "[package]\nname = \"{PACKAGE}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\ncodetag = {{ \
             path = {:?} }}\n\n[workspace]\n",
            codetag
        ),
    )?;
    // The versions that everything else is measured with.
    if tree.root.join("Cargo.lock").is_file() {
        fs::copy(tree.root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    }
    // A new time would have all profiles built anew.
    let main = dir.join("src/main.rs");
    let source = source();
    if fs::read_to_string(&main).is_ok_and(|old| old == source) {
        return Ok(());
    }
    fs::write(main, source)
}

/// Functions that nothing inlines, each reached through a table that the optimiser cannot see through.
fn source() -> String {
    let mut text = String::from("use std::hint::black_box;\n");
    for n in 0..FUNCTIONS {
        let body = match n % 5 {
            0 => format!(
                "    let mut v = Vec::new();\n    for k in 0..n {{\n        v.push(k + {n});\n    }}\n    black_box(&v).len() as u64"
            ),
            1 => format!("    *black_box(Box::new(n + {n}))"),
            2 => format!("    black_box(format!(\"{{n}} {n}\")).len() as u64"),
            3 => format!("    (0..n).fold({n}, |a, k| a ^ black_box(k))"),
            _ => format!(
                "    fn read(s: &str) -> Option<u64> {{\n        let k: u64 = s.parse().ok()?;\n        Some(k + {n})\n    }}\n    read(&n.to_string()).unwrap_or(0)"
            ),
        };
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "\n#[codetag::alloc_tag]\n#[inline(never)]\nfn f{n}(n: u64) -> u64 {{\n{body}\n}}\n"
        );
    }
    let _ = write!(text, "\nconst ALL: [fn(u64) -> u64; {FUNCTIONS}] = [");
    for n in 0..FUNCTIONS {
        let _ = write!(text, "f{n}, ");
    }
    text.push_str(
        "];\n\nfn main() {\n    let n = black_box(7);\n    let sum = black_box(&ALL).iter().fold(0, |sum, f| sum ^ f(n));\n    \
         println!(\"{sum} {}\", codetag::tags().count());\n}\n",
    );
    text
}

fn build(dir: &Path, profile: Profile, is_off: bool) -> Result<Built, String> {
    let state = if is_off { "off" } else { "tagged" };
    let target = dir.join("target").join(state);
    let mut cargo = cargo();
    cargo
        .current_dir(dir)
        .args(["build", "--release", "--quiet", MESSAGES, "--target-dir"])
        .arg(&target)
        .env("CARGO_PROFILE_RELEASE_LTO", profile.lto)
        .env(
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS",
            profile.codegen_units.to_string(),
        )
        .env("CARGO_PROFILE_RELEASE_PANIC", profile.panic);
    if is_off {
        cargo.env("CODETAG_BUILD", "off");
    }
    let ended = child::run(&mut cargo, BUILD_LIMIT).map_err(|error| error.to_string())?;
    let name = format!("{state}-{profile}");
    let path = keep(
        &executable(&ended.stdout, PACKAGE)?,
        &dir.join("bin"),
        &name,
    )?;
    let unreadable = |error| format!("{}: {error}", path.display());
    let functions = objsize::functions(&path, |name| name.contains(CRATE)).map_err(unreadable)?;
    let program = objsize::measure(&path).map_err(unreadable)?.objects;
    let tags = program.iter().map(|program| program.tags.tags).sum::<u64>();
    let due = if is_off { 0 } else { FUNCTIONS as u64 };
    if tags != due {
        return Err(format!("the program has {tags} tags, and {due} were due"));
    }
    let program = program
        .into_iter()
        .next()
        .ok_or("the program has no sizes")?;
    Ok(Built { functions, program })
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Profile, profiles, source};

    #[test]
    fn every_function_is_tagged_and_in_the_table() {
        let source = source();
        assert_eq!(
            source
                .matches("#[codetag::alloc_tag]\n#[inline(never)]\nfn f")
                .count(),
            FUNCTIONS
        );
        assert!(source.contains("f998, f999, ]"));
        assert_eq!(profiles().count(), 8);
    }

    #[test]
    fn profiles_by_name() {
        for profile in profiles() {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "off-2-abort"
            .parse::<Profile>()
            .expect_err("it is not measured");
        assert!(
            error.contains("off-2-abort") && error.contains("fat-16-unwind"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}
