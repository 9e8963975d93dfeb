//! Sizes of object files: text, data and bss as size(1) counts them, and the bytes of code tags.
//!
//! Reads ELF files of either word size and byte order, and archives of them. Only headers, tag sections and
//! relocations are read, not whole files.

mod elf;
mod functions;
mod tags;

pub use functions::{Functions, functions};
pub use tags::{TAG_SECTION, TagBytes};

use object::read::archive::ArchiveFile;
use object::{FileKind, ReadCache, ReadRef};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// More than this is not taken from a pipe, which has to be kept in memory whole.
const PIPE_BYTES_MAX: u64 = 4 << 30;

/// The three sums of size(1) in its Berkeley format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Allocated sections that are executable or read-only.
    pub text_bytes: u64,
    /// Allocated, writable sections with contents in the file.
    pub data_bytes: u64,
    /// Allocated, writable sections without contents, `.tbss` included.
    pub bss_bytes: u64,
}

impl Size {
    /// What size(1) prints as dec and hex.
    pub fn total_bytes(&self) -> u64 {
        self.text_bytes
            .wrapping_add(self.data_bytes)
            .wrapping_add(self.bss_bytes)
    }
}

/// One object file: an executable, a shared object, an object file or an archive's member.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// As given by the caller, or the member's name.
    pub name: String,
    /// The archive that this is a member of; empty for others.
    pub archive: String,
    /// What size(1) would say.
    pub size: Size,
    /// Bytes of the sections named `.text`, or `.text.` and more.
    pub code_section_bytes: u64,
    /// Bytes of single sections that grow with functions.
    pub sections: Sections,
    /// What code tags take of it.
    pub tags: TagBytes,
}

/// Bytes of sections by their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// `.eh_frame`: how to unwind each function.
    pub eh_frame_bytes: u64,
    /// `.gcc_except_table`: what to drop on the way.
    pub gcc_except_table_bytes: u64,
    /// `.rodata`, and `.rodata.` and more.
    pub rodata_bytes: u64,
    /// `.rela.dyn`: relocations for the loader.
    pub rela_dyn_bytes: u64,
}

impl Measured {
    /// The sum of both, under the name of `self`.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        // Wraps as size(1) does on sizes that no file can have.
        let add = |a: &mut u64, b: u64| *a = a.wrapping_add(b);
        add(&mut self.size.text_bytes, other.size.text_bytes);
        add(&mut self.size.data_bytes, other.size.data_bytes);
        add(&mut self.size.bss_bytes, other.size.bss_bytes);
        add(&mut self.code_section_bytes, other.code_section_bytes);
        let (sections, more) = (&mut self.sections, other.sections);
        add(&mut sections.eh_frame_bytes, more.eh_frame_bytes);
        add(
            &mut sections.gcc_except_table_bytes,
            more.gcc_except_table_bytes,
        );
        add(&mut sections.rodata_bytes, more.rodata_bytes);
        add(&mut sections.rela_dyn_bytes, more.rela_dyn_bytes);
        add(&mut self.tags.tags, other.tags.tags);
        add(&mut self.tags.section_bytes, other.tags.section_bytes);
        add(&mut self.tags.relocs, other.tags.relocs);
        add(&mut self.tags.reloc_bytes, other.tags.reloc_bytes);
        add(&mut self.tags.string_bytes, other.tags.string_bytes);
        self
    }
}

/// What one file holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// One, or one per member of an archive, in the archive's order.
    pub objects: Vec<Measured>,
    /// Names of members that are no object files, with the reason.
    pub unusable: Vec<(String, MeasureError)>,
}

/// Why a file has no sizes.
#[derive(Debug)]
#[non_exhaustive]
pub enum MeasureError {
    /// It cannot be opened or read.
    Io(io::Error),
    /// It is a directory.
    Directory,
    /// It has no bytes.
    Empty,
    /// It is neither ELF nor an archive.
    NotAnObject,
    /// It starts as ELF or as an archive but does not hold what its headers say.
    Damaged(object::read::Error),
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Directory => f.write_str("is a directory"),
            Self::Empty => f.write_str("is empty"),
            Self::NotAnObject => f.write_str("is neither an ELF file nor an archive"),
            Self::Damaged(error) => write!(f, "is damaged or cut short: {error}"),
        }
    }
}

impl std::error::Error for MeasureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Damaged(error) => Some(error),
            Self::Directory | Self::Empty | Self::NotAnObject => None,
        }
    }
}

impl From<io::Error> for MeasureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<object::read::Error> for MeasureError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error)
    }
}

/// Measures the file at `path`; `-` is standard input.
///
/// # Errors
///
/// If the file cannot be read or is no object file. A member of an archive that is none does not fail the
/// archive: it is listed as unusable.
pub fn measure(path: &Path) -> Result<Contents, MeasureError> {
    if path.as_os_str() == "-" {
        return measure_pipe(io::stdin().lock(), path);
    }
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        Err(MeasureError::Directory)
    } else if kind.is_file() {
        measure_data(&ReadCache::new(file), path)
    } else {
        measure_pipe(file, path)
    }
}

fn measure_pipe(mut pipe: impl Read, path: &Path) -> Result<Contents, MeasureError> {
    // An endless device is given up at once, by its first bytes.
    let mut data = Vec::new();
    pipe.by_ref().take(64).read_to_end(&mut data)?;
    if !data.is_empty() && !data.starts_with(b"\x7fELF") && !data.starts_with(b"!<") {
        return Err(MeasureError::NotAnObject);
    }
    let more = pipe.take(PIPE_BYTES_MAX).read_to_end(&mut data)?;
    if more as u64 == PIPE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is too long for a pipe").into());
    }
    measure_data(data.as_slice(), path)
}

fn measure_data<'d>(data: impl ReadRef<'d>, path: &Path) -> Result<Contents, MeasureError> {
    if data.len() == Ok(0) {
        return Err(MeasureError::Empty);
    }
    let name = path.display().to_string();
    match FileKind::parse(data) {
        Ok(FileKind::Archive) => measure_archive(data, path, &name),
        Ok(kind) => Ok(Contents {
            objects: vec![measure_object(kind, data, name)?],
            unusable: Vec::new(),
        }),
        Err(_) => Err(MeasureError::NotAnObject),
    }
}

fn measure_object<'d>(
    kind: FileKind,
    data: impl ReadRef<'d>,
    name: String,
) -> Result<Measured, MeasureError> {
    let measured = match kind {
        FileKind::Elf32 => elf::read::<object::elf::FileHeader32<object::Endianness>, _>(data)?,
        FileKind::Elf64 => elf::read::<object::elf::FileHeader64<object::Endianness>, _>(data)?,
        _ => return Err(MeasureError::NotAnObject),
    };
    Ok(Measured { name, ..measured })
}

fn measure_archive<'d>(
    data: impl ReadRef<'d>,
    path: &Path,
    archive: &str,
) -> Result<Contents, MeasureError> {
    let parsed = ArchiveFile::parse(data)?;
    let mut contents = Contents::default();
    for member in parsed.members() {
        let member = member?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let measured = if member.is_thin() {
            // A thin archive names its members by their paths from its own directory.
            let beside = path.parent().unwrap_or(Path::new("")).join(&name);
            File::open(beside)
                .map_err(MeasureError::from)
                .and_then(|file| member_object(&ReadCache::new(file)))
        } else {
            member
                .data(data)
                .map_err(MeasureError::from)
                .and_then(member_object)
        };
        match measured {
            Ok(measured) => contents.objects.push(Measured {
                name,
                archive: archive.to_owned(),
                ..measured
            }),
            Err(error) => contents.unusable.push((name, error)),
        }
    }
    Ok(contents)
}

fn member_object<'d>(data: impl ReadRef<'d>) -> Result<Measured, MeasureError> {
    match FileKind::parse(data) {
        Ok(kind) => measure_object(kind, data, String::new()),
        Err(_) => Err(MeasureError::NotAnObject),
    }
}
