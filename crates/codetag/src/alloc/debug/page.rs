//! The page that says what is wrong, and the end of the process.
//!
//! It is put together on the stack and written by one call: the heap is not to be trusted any more, and
//! nothing here allocates.

use super::slot::{Broken, Wrong};
use crate::scope;
use crate::sys;
use crate::tag::{CodeTag, UNTAGGED};
use core::alloc::Layout;
use core::fmt::{self, Write};
use core::ptr;

/// What is wrong.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    DoubleFree,
    /// Not at the start of the object.
    Interior,
    /// Nobody's.
    Foreign,
    /// The layout is not the one that was asked for.
    WrongLayout(Layout),
    /// A zone around a live object, or a free one, is not whole.
    Broken(Broken),
    /// What the slot said of its object is written over.
    RecordLost,
    /// The list led to a slot that is not free.
    FreeListLost,
}

/// What is known of the object.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub at: usize,
    /// Requested bytes and alignment; none if they are not known any more.
    pub layout: Option<(usize, usize)>,
    pub allocated_by: Option<&'static CodeTag>,
    pub freed_by: Option<&'static CodeTag>,
}

/// A fault, and where it was met.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub kind: Kind,
    /// What the program gave, or got.
    pub pointer: usize,
    pub object: Option<Object>,
}

/// Room for a page: its tags have names and paths of any length.
struct Page {
    bytes: [u8; 4096],
    len: usize,
}

impl Write for Page {
    /// What finds no room is left out.
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// A tag as reports print it.
struct Owner(Option<&'static CodeTag>);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            _ if cfg!(codetag_off) => f.write_str("tags off"),
            None => f.write_str("not known"),
            Some(tag) if ptr::eq(tag, &raw const UNTAGGED) => f.write_str("untagged"),
            Some(tag) => write!(
                f,
                "{}:{} [{}] func:{}",
                tag.file(),
                tag.line(),
                tag.krate(),
                tag.function()
            ),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:+} from the object's start {:#04x} and not {:#04x}, wrong up to {:+}",
            self.offset,
            self.found,
            self.expected,
            self.offset + self.bytes.cast_signed() - 1
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DoubleFree => "double free",
            Self::Interior => "interior pointer",
            Self::Foreign => "foreign pointer",
            Self::WrongLayout(_) => "wrong layout",
            Self::Broken(Broken::Behind(_)) => "overrun, red zone behind the object overwritten",
            Self::Broken(Broken::Before(_)) => "underrun, red zone before the object overwritten",
            Self::Broken(Broken::Inside(_)) => "use after free, poison overwritten",
            Self::RecordLost => "overrun, the record of the slot overwritten",
            Self::FreeListLost => "a live object on a free list, whose links were overwritten",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "codetag: {}", self.kind)?;
        writeln!(f, "      pointer: {:#x}", self.pointer)?;
        match self.object {
            None => writeln!(f, "       object: none is known there")?,
            Some(o) => {
                match o.layout {
                    Some((bytes, align)) => writeln!(
                        f,
                        "       object: {bytes} bytes requested, alignment {align}, at {:#x}",
                        o.at
                    )?,
                    None => writeln!(f, "       object: in the slot at {:#x}", o.at)?,
                }
                if matches!(self.kind, Kind::Interior) {
                    let offset = self.pointer.wrapping_sub(o.at).cast_signed();
                    writeln!(f, "       offset: {offset:+} from the object's start")?;
                }
                writeln!(f, " allocated by: {}", Owner(o.allocated_by))?;
                if o.freed_by.is_some() {
                    writeln!(f, "     freed by: {}", Owner(o.freed_by))?;
                }
            }
        }
        match self.kind {
            Kind::WrongLayout(given) => writeln!(
                f,
                "        given: {} bytes, alignment {}",
                given.size(),
                given.align()
            )?,
            Kind::Broken(Broken::Before(wrong) | Broken::Behind(wrong) | Broken::Inside(wrong)) => {
                writeln!(f, "        bytes: {wrong}")?;
            }
            _ => {}
        }
        writeln!(f, "       met in: {}", Owner(Some(scope::current_tag())))
    }
}

/// Prints the page and ends the process.
#[cold]
#[inline(never)]
pub(super) fn end(fault: &Fault) -> ! {
    let mut page = Page {
        bytes: [0; 4096],
        len: 0,
    };
    // A page never refuses.
    let _ = write!(page, "{fault}");
    sys::write_stderr(&page.bytes[..page.len]);
    std::process::abort()
}
