//! The bytes of code tags in an ELF file: the section that linkme gathers, its relocations, its strings.
//!
//! A `codetag::CodeTag` is `repr(C)`: pointer and length of one string, line, column and id of four bytes
//! each, padded to the size of a pointer. That is 32 B on 64-bit targets.

use super::MeasureError;
use object::read::elf::{Crel, FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{Endian, Endianness, ReadRef, SectionIndex, elf};
use std::collections::{HashMap, HashSet};

/// Where linkme gathers the code tags.
pub const TAG_SECTION: &str = "linkme_CODETAG_TAGS";

/// What the code tags of one object file take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagBytes {
    /// Number of code tags.
    pub tags: u64,
    /// Bytes of the section that holds them.
    pub section_bytes: u64,
    /// Number of relocations that fall into it; none in an executable that is not relocated.
    pub relocs: u64,
    /// Bytes of these relocations in the file. Packed ones (RELR) take none of their own.
    pub reloc_bytes: u64,
    /// Bytes of the strings that the tags point to, each distinct one once.
    pub string_bytes: u64,
}

/// A place in the file's memory: in a linked file an address with no section, in an object file an offset
/// into a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    /// 0, which is no section's number, where there is none.
    section: usize,
    offset: u64,
}

pub(super) fn read<'d, Elf, R>(
    header: &Elf,
    endian: Endianness,
    data: R,
    sections: &SectionTable<'d, Elf, R>,
) -> Result<TagBytes, MeasureError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let word_bytes: usize = if header.is_type_64() { 8 } else { 4 };
    let tag_bytes = (2 * word_bytes + 12).next_multiple_of(word_bytes);
    let mut total = TagBytes::default();
    let mut strings: HashSet<(Place, u64)> = HashSet::new();
    for (index, section) in sections.enumerate() {
        if sections.section_name(endian, section) != Ok(TAG_SECTION.as_bytes()) {
            continue;
        }
        let bytes = section.data(endian, data)?;
        let relocs = Relocs::read(header, endian, data, sections, index)?;
        total.tags += (bytes.len() / tag_bytes) as u64;
        total.section_bytes += bytes.len() as u64;
        total.relocs += relocs.count;
        total.reloc_bytes += relocs.bytes;
        for (number, tag) in bytes.chunks_exact(tag_bytes).enumerate() {
            let offset = (number * tag_bytes) as u64;
            let pointer = relocs
                .targets
                .get(&offset)
                .copied()
                .unwrap_or_else(|| Place {
                    offset: word(tag, 0, word_bytes, endian),
                    ..Place::default()
                });
            let len = word(tag, word_bytes, word_bytes, endian);
            if holds(sections, endian, pointer, len) {
                strings.insert((pointer, len));
            }
        }
    }
    total.string_bytes = strings.iter().map(|(_, len)| len).sum();
    Ok(total)
}

/// The word at `at` in `bytes`, which has it.
fn word(bytes: &[u8], at: usize, word_bytes: usize, endian: Endianness) -> u64 {
    let mut wide = [0; 8];
    if endian.is_little_endian() {
        wide[..word_bytes].copy_from_slice(&bytes[at..at + word_bytes]);
        u64::from_le_bytes(wide)
    } else {
        wide[8 - word_bytes..].copy_from_slice(&bytes[at..at + word_bytes]);
        u64::from_be_bytes(wide)
    }
}

/// Whether `len` bytes at `place` are in a section of this file that is loaded with contents.
fn holds<'d, Elf, R>(
    sections: &SectionTable<'d, Elf, R>,
    endian: Endianness,
    place: Place,
    len: u64,
) -> bool
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let within = |section: &Elf::SectionHeader, start: u64| {
        let size: u64 = section.sh_size(endian).into();
        section.sh_flags(endian).contains(elf::SHF_ALLOC)
            && section.sh_type(endian) != elf::SHT_NOBITS
            && place
                .offset
                .checked_sub(start)
                .and_then(|at| at.checked_add(len))
                .is_some_and(|end| end <= size)
    };
    if place.section == 0 {
        sections
            .iter()
            .any(|section| within(section, section.sh_addr(endian).into()))
    } else {
        sections
            .section(SectionIndex(place.section))
            .is_ok_and(|section| within(section, 0))
    }
}

/// The relocations that fall into one section.
#[derive(Debug, Default)]
struct Relocs {
    count: u64,
    bytes: u64,
    /// What each relocated word points to, by the word's offset in the section.
    targets: HashMap<u64, Place>,
}

impl Relocs {
    /// Those of section `index`: in an object file the sections that name it, in a linked file what the
    /// loader applies within its addresses.
    fn read<'d, Elf, R>(
        header: &Elf,
        endian: Endianness,
        data: R,
        sections: &SectionTable<'d, Elf, R>,
        index: SectionIndex,
    ) -> Result<Self, MeasureError>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'d>,
    {
        let section = sections.section(index)?;
        let linked = header.e_type(endian) != elf::ET_REL;
        let start: u64 = if linked {
            section.sh_addr(endian).into()
        } else {
            0
        };
        let size: u64 = section.sh_size(endian).into();
        let mut found = Self::default();
        for table in sections.iter() {
            let applies = if linked {
                table.sh_flags(endian).contains(elf::SHF_ALLOC)
            } else {
                table.info_link(endian) == index
            };
            if !applies {
                continue;
            }
            let (entries, link): (Vec<Crel>, _) =
                if let Some((rela, link)) = table.rela(endian, data)? {
                    (
                        rela.iter()
                            .map(|one| Crel::from_rela(one, endian, false))
                            .collect(),
                        link,
                    )
                } else if let Some((rel, link)) = table.rel(endian, data)? {
                    (
                        rel.iter().map(|one| Crel::from_rel(one, endian)).collect(),
                        link,
                    )
                } else {
                    continue;
                };
            let has_addends = table.sh_type(endian) == elf::SHT_RELA;
            // In a linked file the symbols do not matter: the loader adds to addresses.
            let symbols = if linked {
                None
            } else {
                Some(sections.symbol_table_by_index(endian, data, link)?)
            };
            let entry_bytes: u64 = table.sh_entsize(endian).into();
            for entry in entries {
                let Some(offset) = entry
                    .r_offset
                    .checked_sub(start)
                    .filter(|offset| *offset < size)
                else {
                    continue;
                };
                found.count += 1;
                found.bytes = found.bytes.saturating_add(entry_bytes);
                if has_addends {
                    let base = symbols.as_ref().map_or(Ok(Place::default()), |table| {
                        symbol_place(table, endian, &entry)
                    })?;
                    let target = Place {
                        offset: base.offset.wrapping_add_signed(entry.r_addend),
                        ..base
                    };
                    found.targets.insert(offset, target);
                }
            }
        }
        Ok(found)
    }
}

fn symbol_place<'d, Elf, R>(
    symbols: &SymbolTable<'d, Elf, R>,
    endian: Endianness,
    entry: &Crel,
) -> Result<Place, MeasureError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let Some(index) = entry.symbol() else {
        return Ok(Place::default());
    };
    let symbol = symbols.symbol(index)?;
    let section = symbols
        .symbol_section(endian, symbol, index)?
        .map_or(0, |section| section.0);
    Ok(Place {
        section,
        offset: symbol.st_value(endian).into(),
    })
}
