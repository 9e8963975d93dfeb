//! ELF section headers to sums, by the rules of size(1).

use super::{MeasureError, Measured, Sections, Size, tags};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadRef, elf};

/// Sums the sections of one ELF file, which gets no name here. One without section headers has none, as with size(1).
pub(super) fn read<'d, Elf, R>(data: R) -> Result<Measured, MeasureError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut size = Size::default();
    let mut code_section_bytes = 0_u64;
    let mut named = Sections::default();
    for section in sections.iter() {
        let flags = section.sh_flags(endian);
        if !flags.contains(elf::SHF_ALLOC) {
            continue;
        }
        let bytes: u64 = section.sh_size(endian).into();
        let name = sections.section_name(endian, section).unwrap_or_default();
        if name == b".text" || name.starts_with(b".text.") {
            code_section_bytes = code_section_bytes.wrapping_add(bytes);
        }
        let sum = match name {
            b".eh_frame" => Some(&mut named.eh_frame_bytes),
            b".gcc_except_table" => Some(&mut named.gcc_except_table_bytes),
            b".rela.dyn" => Some(&mut named.rela_dyn_bytes),
            _ if name == b".rodata" || name.starts_with(b".rodata.") => {
                Some(&mut named.rodata_bytes)
            }
            _ => None,
        };
        if let Some(sum) = sum {
            *sum = sum.wrapping_add(bytes);
        }
        let sum = if flags.contains(elf::SHF_EXECINSTR) || !flags.contains(elf::SHF_WRITE) {
            &mut size.text_bytes
        } else if section.sh_type(endian) == elf::SHT_NOBITS {
            &mut size.bss_bytes
        } else {
            &mut size.data_bytes
        };
        *sum = sum.wrapping_add(bytes);
    }
    let tags = tags::read::<Elf, R>(header, endian, data, &sections)?;
    Ok(Measured {
        size,
        code_section_bytes,
        sections: named,
        tags,
        ..Measured::default()
    })
}
