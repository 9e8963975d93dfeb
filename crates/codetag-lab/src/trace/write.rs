//! Writes the lab's own format.

use super::own::{FLAGS, MAGIC, VERSION, encoded};
use crate::event::{Event, GfpFlags, Kind, KnownBy, Name, Names, Origin};
use std::io::{self, Write};

/// Writes events in the format of `docs/TRACE.md`, version 1.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    time_ns: u64,
    cpu: u16,
}

impl<W: Write> Writer<W> {
    /// Writes the first line to `out`, which should be buffered.
    ///
    /// # Errors
    ///
    /// What `out` returns.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(VERSION)?;
        out.write_all(b"\n")?;
        Ok(Self {
            out,
            time_ns: 0,
            cpu: 0,
        })
    }

    /// Writes one event, whose strings are in `names`.
    ///
    /// # Errors
    ///
    /// What the output returns.
    pub fn write(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        if event.cpu != self.cpu {
            self.cpu = event.cpu;
            writeln!(self.out, "cpu {}", event.cpu)?;
        }
        if event.time_ns != self.time_ns {
            self.time_ns = event.time_ns;
            write!(self.out, "@{} ", event.time_ns)?;
        }
        match event.kind {
            Kind::Alloc(alloc) => {
                let (ptr, req, slot) = (alloc.ptr, alloc.bytes_req, alloc.bytes_alloc);
                match alloc.origin {
                    Origin::Kmalloc => write!(self.out, "kmalloc {ptr:x} {req} {slot}")?,
                    Origin::Cache { name, known_by } => {
                        // A made-up name is none: the next reader makes it up again.
                        let name = match known_by {
                            KnownBy::Site => "-".into(),
                            KnownBy::Event | KnownBy::Free => encoded(names.get(name)),
                        };
                        write!(self.out, "alloc {ptr:x} {req} {slot} {name}")?;
                    }
                }
                let has_flags = alloc.flags != GfpFlags::default();
                match alloc.call_site {
                    Name::OTHER if has_flags => self.out.write_all(b" -")?,
                    Name::OTHER => {}
                    site => write!(self.out, " {}", encoded(names.get(site)))?,
                }
                let mut separator = ' ';
                for (word, _) in FLAGS.iter().filter(|(_, flag)| alloc.flags.has(*flag)) {
                    write!(self.out, "{separator}{word}")?;
                    separator = ',';
                }
                writeln!(self.out)
            }
            Kind::Free(free) => {
                write!(self.out, "free {:x}", free.ptr)?;
                match (free.cache, free.by_rcu) {
                    (Some(cache), _) => write!(self.out, " {}", encoded(names.get(cache)))?,
                    (None, true) => self.out.write_all(b" -")?,
                    (None, false) => {}
                }
                writeln!(self.out, "{}", if free.by_rcu { " rcu" } else { "" })
            }
            Kind::PageAlloc(pages) => writeln!(self.out, "pages {:x} {}", pages.pfn, pages.order),
            Kind::PageFree(pages) => writeln!(self.out, "unpages {:x} {}", pages.pfn, pages.order),
        }
    }

    /// Notes that `events` were lost here.
    ///
    /// # Errors
    ///
    /// What the output returns.
    pub fn lost(&mut self, events: u64) -> io::Result<()> {
        writeln!(self.out, "lost {events}")
    }

    /// Writes the last line, which says that the file is whole, flushes, and hands the output back.
    ///
    /// # Errors
    ///
    /// What the output returns.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"end\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}
