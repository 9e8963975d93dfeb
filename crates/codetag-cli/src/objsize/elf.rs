//! ELF section headers to sums, by the rules of size(1).

use super::tags::{self, TagBytes};
use super::{MeasureError, Size};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadRef, elf};

/// Sums the sections of one ELF file. One without section headers has none, as with size(1).
pub(super) fn read<'d, Elf, R>(data: R) -> Result<(Size, TagBytes), MeasureError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut size = Size::default();
    for section in sections.iter() {
        let flags = section.sh_flags(endian);
        if !flags.contains(elf::SHF_ALLOC) {
            continue;
        }
        let bytes: u64 = section.sh_size(endian).into();
        let sum = if flags.contains(elf::SHF_EXECINSTR) || !flags.contains(elf::SHF_WRITE) {
            &mut size.text_bytes
        } else if section.sh_type(endian) == elf::SHT_NOBITS {
            &mut size.bss_bytes
        } else {
            &mut size.data_bytes
        };
        *sum = sum.wrapping_add(bytes);
    }
    Ok((size, tags::read::<Elf, R>(header, endian, data, &sections)?))
}
