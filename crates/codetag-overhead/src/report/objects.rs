//! What object files hold: the sizes of programs, and what a tag adds to a function.

use super::{Output, strings};
use crate::figures::{Figure, Section, cell};
use crate::objsize::{self, Measured as Object};
use crate::text::Pair;
use std::path::Path;

/// All of a file in one.
pub(crate) fn sizes(path: &Path) -> Result<Object, String> {
    let contents =
        objsize::measure(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let sum = contents
        .objects
        .iter()
        .fold(Object::default(), Object::plus);
    Ok(sum)
}

/// Names of [`object_values`].
pub(crate) fn object_header() -> Vec<String> {
    let mut header = strings(&[""]);
    header.extend(OBJECT_COLUMNS.map(str::to_owned));
    header
}

const OBJECT_COLUMNS: [&str; 13] = [
    ".text",
    "text",
    "data",
    "bss",
    "dec",
    "code tags",
    "their section",
    "relocations",
    "strings",
    ".eh_frame",
    ".gcc_except_table",
    ".rodata",
    ".rela.dyn",
];

fn object_values(object: &Object) -> [u64; OBJECT_COLUMNS.len()] {
    let (size, tags, sections) = (object.size, object.tags, object.sections);
    [
        object.code_section_bytes,
        size.text_bytes,
        size.data_bytes,
        size.bss_bytes,
        size.total_bytes(),
        tags.tags,
        tags.section_bytes,
        tags.reloc_bytes,
        tags.string_bytes,
        sections.eh_frame_bytes,
        sections.gcc_except_table_bytes,
        sections.rodata_bytes,
        sections.rela_dyn_bytes,
    ]
}

pub(crate) fn object_row(name: &str, object: &Object) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(object_values(object).map(|value| value.to_string()));
    row
}

pub(crate) fn object_figures(table: &'static str, name: &str, object: &Object) -> Vec<Figure> {
    let values = OBJECT_COLUMNS.into_iter().zip(object_values(object));
    values
        .map(|(what, value)| Figure {
            table,
            row: name.to_owned(),
            what: what.to_owned(),
            value: value as f64,
            unit: if what == "code tags" { "tags" } else { "bytes" },
            source: "object file",
            ..Figure::default()
        })
        .collect()
}

/// What a tag adds to a function.
pub(super) fn text(pairs: &[Pair], output: &mut Output) {
    type Of = fn(&crate::text::Built) -> u64;
    const COLUMNS: [(&str, Of); 7] = [
        ("its own .text", |built| built.functions.bytes),
        (".text of the program", |built| {
            built.program.code_section_bytes
        }),
        (".eh_frame", |built| built.program.sections.eh_frame_bytes),
        (".gcc_except_table", |built| {
            built.program.sections.gcc_except_table_bytes
        }),
        (".rodata", |built| built.program.sections.rodata_bytes),
        (".rela.dyn", |built| built.program.sections.rela_dyn_bytes),
        ("text by size(1)", |built| built.program.size.text_bytes),
    ];
    let mut rows = Vec::new();
    for pair in pairs {
        let profile = pair.profile;
        let name = format!(
            "panic {}, lto {}, {} codegen unit{}",
            profile.panic,
            profile.lto,
            profile.codegen_units,
            if profile.codegen_units == 1 { "" } else { "s" }
        );
        let mut cells = vec![name.clone()];
        for (what, of) in COLUMNS {
            let value = pair.per_function(of);
            cells.push(format!("{value:.1}"));
            output.figures.push(Figure {
                table: "text",
                row: name.clone(),
                workload: format!("{} generated functions", crate::text::FUNCTIONS),
                what: format!("{what}, tagged − tags off, per function"),
                value,
                unit: "bytes",
                source: "object file",
                ..Figure::default()
            });
        }
        cells.push(cell(pair.data_per_tag().map(|bytes| format!("{bytes:.1}"))));
        output
            .figures
            .extend(pair.data_per_tag().map(|value| Figure {
                table: "text",
                row: name.clone(),
                workload: format!("{} generated functions", crate::text::FUNCTIONS),
                what: "section and relocation per tag, strings apart".to_owned(),
                value,
                unit: "bytes",
                source: "object file",
                ..Figure::default()
            }));
        rows.push(cells);
    }
    let mut header = strings(&[""]);
    header.extend(COLUMNS.map(|(what, _)| what.to_owned()));
    header.push("tag and relocation".to_owned());
    output.sections.push(Section {
        heading: format!(
            "Bytes that a tag adds, mean of {} generated functions",
            crate::text::FUNCTIONS
        ),
        header,
        rows,
    });
}
