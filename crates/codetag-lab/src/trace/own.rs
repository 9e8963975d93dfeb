//! The lab's own text: what `docs/TRACE.md` describes.

use super::line::{Meaning, RawAlloc, RawEvent, RawKind, block, cpu, decimal, hexadecimal, size};
use crate::event::GfpFlags;

/// The first line, up to the version.
pub(crate) const MAGIC: &[u8] = b"codetag-trace ";
/// The version that is read and written.
pub(crate) const VERSION: &[u8] = b"1";

/// The words of the field FLAGS.
pub(crate) const FLAGS: [(&str, GfpFlags); 4] = [
    ("reclaimable", GfpFlags::RECLAIMABLE),
    ("account", GfpFlags::ACCOUNT),
    ("dma", GfpFlags::DMA),
    ("nofail", GfpFlags::NOFAIL),
];

/// What the lines so far set for the lines to come.
#[derive(Debug, Default)]
pub(crate) struct Own {
    time_ns: u64,
    cpu: u16,
    ended: bool,
}

impl Own {
    /// What is missing at the end of the file, as a sentence, if anything is.
    pub(crate) fn missing(&self) -> Option<String> {
        (!self.ended).then(|| "the file ends without its line `end`".to_owned())
    }

    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Meaning<'a> {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            return Meaning::Skipped;
        }
        if self.ended {
            return Meaning::Malformed("behind the line `end`");
        }
        self.meaning(line).unwrap_or_else(Meaning::Malformed)
    }

    fn meaning<'a>(&mut self, line: &'a [u8]) -> Result<Meaning<'a>, &'static str> {
        let mut words = Words(line);
        let mut first = words.next().unwrap_or_default();
        if let Some(time) = first.strip_prefix(b"@") {
            self.time_ns = decimal(time).ok_or("no time in nanoseconds behind @")?;
            first = words.next().unwrap_or_default();
        }
        let kind = match first {
            b"alloc" => words.alloc(true)?,
            b"kmalloc" => words.alloc(false)?,
            b"free" => match words.pointer()? {
                0 => RawKind::NullFree,
                ptr => RawKind::Free {
                    ptr,
                    cache: words.known(),
                    by_rcu: words.rcu()?,
                },
            },
            b"pages" => RawKind::PageAlloc(block(words.pfn()?, words.decimal("no order")?)?),
            b"unpages" => RawKind::PageFree(block(words.pfn()?, words.decimal("no order")?)?),
            b"cpu" => {
                let number = words.next().and_then(cpu);
                self.cpu = number.ok_or("no number of a CPU below 8192")?;
                return words.end(Meaning::Skipped);
            }
            b"lost" => {
                let lost = words.decimal("no number of lost events")?;
                return words.end(Meaning::Lost(lost));
            }
            b"end" => {
                self.ended = true;
                return words.end(Meaning::Skipped);
            }
            _ => return Err("no word that a line of this format starts with"),
        };
        words.end(Meaning::Event(RawEvent {
            time_ns: self.time_ns,
            cpu: self.cpu,
            lost_before: 0,
            kind,
        }))
    }
}

/// The rest of a line.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0 = self.0.trim_ascii_start();
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b' ', b'\t', self.0).unwrap_or(self.0.len());
        let (word, behind) = self.0.split_at(end);
        self.0 = behind;
        Some(word)
    }

    /// The next word unless it is `-`, which stands for what is not known.
    fn known(&mut self) -> Option<&'a [u8]> {
        self.next().filter(|&word| word != b"-")
    }

    /// Whether the word `rcu` follows.
    fn rcu(&mut self) -> Result<bool, &'static str> {
        match self.next() {
            None => Ok(false),
            Some(b"rcu") => Ok(true),
            Some(_) => Err("a word that is not rcu after a free"),
        }
    }

    fn decimal(&mut self, missing: &'static str) -> Result<u64, &'static str> {
        let word = self.next().ok_or(missing)?;
        decimal(word).ok_or(missing)
    }

    fn hexadecimal(&mut self) -> Option<u64> {
        let word = self.next()?;
        hexadecimal(word.strip_prefix(b"0x").unwrap_or(word))
    }

    fn pointer(&mut self) -> Result<u64, &'static str> {
        self.hexadecimal().ok_or("no hexadecimal address")
    }

    fn pfn(&mut self) -> Result<u64, &'static str> {
        self.hexadecimal().ok_or("no hexadecimal page frame number")
    }

    fn size(&mut self, missing: &'static str) -> Result<u64, &'static str> {
        self.next().and_then(size).ok_or(missing)
    }

    fn alloc(&mut self, from_cache: bool) -> Result<RawKind<'a>, &'static str> {
        let ptr = self.pointer()?;
        if ptr == 0 {
            return Err("an object at address 0");
        }
        let bytes_req = self.size("no requested size")?;
        let bytes_alloc = self.size("no size of the slot")?;
        let cache = if from_cache {
            let word = self.next().ok_or("no cache (`-` if unknown)")?;
            Some(word).filter(|&word| word != b"-")
        } else {
            None
        };
        let call_site = self.known().unwrap_or_default();
        let mut flags = GfpFlags::default();
        if let Some(word) = self.known() {
            for part in word.split(|&byte| byte == b',') {
                let known = FLAGS.iter().find(|(name, _)| name.as_bytes() == part);
                flags = flags.with(known.ok_or("a flag that is not of this format")?.1);
            }
        }
        Ok(RawKind::Alloc(RawAlloc {
            ptr,
            from_cache,
            cache,
            bytes_req,
            bytes_alloc,
            call_site,
            flags,
        }))
    }

    /// `meaning`, if nothing is left.
    fn end(&mut self, meaning: Meaning<'a>) -> Result<Meaning<'a>, &'static str> {
        match self.next() {
            None => Ok(meaning),
            Some(_) => Err("more words than this kind of line has"),
        }
    }
}

/// Names may hold what separates words: `%20` stands for a space, `%25` for the percent sign.
pub(crate) fn decoded(word: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if !word.contains(&b'%') {
        return word.into();
    }
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'%')
            .then(|| behind.get(..2).and_then(hexadecimal))
            .flatten()
            .and_then(|code| u8::try_from(code).ok());
        out.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    out.into()
}

/// The reverse of [`decoded`]. `-` alone, which would read as unknown, is written `%2d`.
pub(crate) fn encoded(name: &str) -> std::borrow::Cow<'_, str> {
    let plain = |c: char| !(c == '%' || c.is_whitespace() || c.is_control());
    if name == "-" {
        return "%2d".into();
    }
    if !name.is_empty() && name.chars().all(plain) {
        return name.into();
    }
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if plain(c) {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02x}"));
            }
        }
    }
    out.into()
}
