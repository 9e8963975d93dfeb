//! The caches of this machine, in the form that Valgrind's simulator takes.

use std::fs;
use std::path::Path;

/// Where Linux tells them.
pub const SYSFS: &str = "/sys/devices/system/cpu/cpu0/cache";

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its size.
    pub bytes: u64,
    /// How many lines may hold one address.
    pub ways: u64,
    /// The size of a line.
    pub line_bytes: u64,
}

impl Cache {
    fn read(dir: &Path) -> Option<Self> {
        let number = |name| read(dir, name)?.parse::<u64>().ok();
        let size = read(dir, "size")?;
        let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
        let cache = Self {
            bytes: kib << 10,
            ways: number("ways_of_associativity")?,
            line_bytes: number("coherency_line_size")?,
        };
        cache.can_be_simulated().then_some(cache)
    }

    /// Valgrind takes sets in powers of two only.
    fn can_be_simulated(self) -> bool {
        let set_bytes = self.ways.saturating_mul(self.line_bytes);
        set_bytes > 0
            && self.line_bytes.is_power_of_two()
            && self.bytes.is_multiple_of(set_bytes)
            && (self.bytes / set_bytes).is_power_of_two()
    }

    fn option(self, name: &str) -> String {
        format!("--{name}={},{},{}", self.bytes, self.ways, self.line_bytes)
    }
}

/// First-level caches and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// First level, instructions.
    pub i1: Cache,
    /// First level, data.
    pub d1: Cache,
    /// The last level.
    pub last: Cache,
}

impl Geometry {
    /// What `dir` says (see [`SYSFS`]); `None` if it says nothing that can be simulated.
    pub fn read(dir: &Path) -> Option<Self> {
        let mut found = (None, None, None);
        let mut last_level = 1;
        for entry in fs::read_dir(dir).ok()?.flatten() {
            let path = entry.path();
            let (Some(level), Some(kind)) = (read(&path, "level"), read(&path, "type")) else {
                continue;
            };
            let level: u32 = level.parse().ok()?;
            match (level, kind.as_str()) {
                (1, "Instruction") => found.0 = Cache::read(&path),
                (1, "Data") => found.1 = Cache::read(&path),
                (level, "Unified") if level > last_level => {
                    last_level = level;
                    found.2 = Cache::read(&path);
                }
                _ => {}
            }
        }
        Some(Self {
            i1: found.0?,
            d1: found.1?,
            last: found.2?,
        })
    }

    /// The options of Callgrind and Cachegrind.
    pub fn options(self) -> [String; 3] {
        [
            self.i1.option("I1"),
            self.d1.option("D1"),
            self.last.option("LL"),
        ]
    }
}

fn read(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(name)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Cache, Geometry};
    use std::fs;

    #[test]
    fn the_files_of_linux_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Geometry::read(dir.path()), None);
        for (index, level, kind, size, ways) in [
            (0, "1", "Data", "48K", "12"),
            (1, "1", "Instruction", "32K", "8"),
            (2, "2", "Unified", "1024K", "16"),
            (3, "3", "Unified", "32768K", "16"),
        ] {
            let index = dir.path().join(format!("index{index}"));
            fs::create_dir(&index).expect("a directory");
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("coherency_line_size", "64"),
            ] {
                fs::write(index.join(name), format!("{text}\n")).expect("a file");
            }
        }
        let geometry = Geometry::read(dir.path()).expect("three caches");
        assert_eq!(
            geometry.options(),
            ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64"]
        );
        // Three sets, which the simulator refuses.
        fs::write(dir.path().join("index1/size"), "24K").expect("a file");
        fs::write(dir.path().join("index1/ways_of_associativity"), "128").expect("a file");
        assert_eq!(Geometry::read(dir.path()), None);
    }

    #[test]
    fn sets_are_a_power_of_two() {
        let cache = |bytes, ways| Cache {
            bytes,
            ways,
            line_bytes: 64,
        };
        assert!(cache(48 << 10, 12).can_be_simulated());
        assert!(!cache(48 << 10, 8).can_be_simulated());
        assert!(!cache(48 << 10, 0).can_be_simulated());
    }
}
