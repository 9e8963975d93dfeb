//! `codetag size`: what a binary takes, and what its code tags take of it.

use crate::output::{Format, Output, one_line};
use codetag_overhead::objsize::{self, Measured};
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use std::path::PathBuf;

/// Print text, data and bss of binaries as size(1) does, and what their code tags take.
///
/// The first table has the columns, numbers and layout of size(1) in its Berkeley format. If any of the
/// files has code tags, a second table follows, in bytes: the number of tags, the section that holds them,
/// the relocations that fall into that section, and the strings that the tags point to (distinct ones,
/// counted once).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag size target/release/my-service\n  \
    codetag size --diff target-off/release/my-service target/release/my-service\n\n\
    Exit status: 0 all was done, 1 some file could not be used, 2 wrong usage.")]
pub(crate) struct Args {
    /// ELF executables, shared objects, object files, or archives (.a, .rlib); `-` is standard input
    #[arg(required = true, value_name = "BIN")]
    files: Vec<PathBuf>,

    /// Take the first file as the base and print the others as differences to it; archives are summed
    #[arg(long)]
    diff: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One line of every format. Field names are the column names of csv and the keys of json.
#[derive(Clone, Debug, Serialize)]
struct Row {
    filename: String,
    /// The archive that the file is a member of; empty for others.
    archive: String,
    #[serde(flatten)]
    figures: Figures<u64>,
    /// To the base; absent without `--diff`, zeros in the base itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Figures<i64>>,
}

/// The columns that hold figures. Bytes, except `tags` and `tag_relocs`, which are counts.
const COLUMNS: [&str; 9] = [
    "text",
    "data",
    "bss",
    "dec",
    "tags",
    "tag_section_bytes",
    "tag_relocs",
    "tag_reloc_bytes",
    "tag_string_bytes",
];

/// In the order of [`COLUMNS`].
#[derive(Clone, Copy, Debug)]
struct Figures<N>([N; COLUMNS.len()]);

impl Figures<u64> {
    fn minus(&self, base: &Self) -> Figures<i64> {
        Figures(std::array::from_fn(|column| self.0[column].wrapping_sub(base.0[column]).cast_signed()))
    }

    fn has_tags(&self) -> bool {
        self.0[4] > 0
    }
}

impl<N: Serialize> Serialize for Figures<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(COLUMNS.iter().zip(&self.0))
    }
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        if self.diff && self.files.len() < 2 {
            out.misuse("--diff", &"needs a base and at least one more file");
            return Ok(());
        }
        let mut rows: Vec<Row> = Vec::new();
        for (position, path) in self.files.iter().enumerate() {
            let measured = match objsize::measure(path) {
                Ok(measured) => measured,
                Err(error) => {
                    out.fail(&path.display().to_string(), &error);
                    if self.diff && position == 0 {
                        return Ok(());
                    }
                    continue;
                }
            };
            for (member, error) in &measured.unusable {
                out.fail(&format!("{} (ex {})", member, path.display()), error);
            }
            if self.diff {
                let sum = measured.objects.iter().fold(Measured::default(), Measured::plus);
                let mut row = Row::new(&Measured { name: path.display().to_string(), ..sum });
                row.diff = Some(row.figures.minus(&rows.first().map_or(row.figures, |base| base.figures)));
                rows.push(row);
            } else {
                rows.extend(measured.objects.iter().map(Row::new));
            }
        }
        match self.format {
            Format::Table => table(&rows, out),
            Format::Json => json(&rows, out),
            Format::Csv => csv(&rows, self.diff, out),
        }
    }
}

impl Row {
    fn new(measured: &Measured) -> Self {
        let (size, tags) = (measured.size, measured.tags);
        Self {
            filename: measured.name.clone(),
            archive: measured.archive.clone(),
            figures: Figures([
                size.text_bytes,
                size.data_bytes,
                size.bss_bytes,
                size.total_bytes(),
                tags.tags,
                tags.section_bytes,
                tags.relocs,
                tags.reloc_bytes,
                tags.string_bytes,
            ]),
            diff: None,
        }
    }

    /// As size(1) names it.
    fn label(&self) -> String {
        if self.archive.is_empty() {
            one_line(&self.filename)
        } else {
            one_line(&format!("{} (ex {})", self.filename, self.archive))
        }
    }
}

fn table(rows: &[Row], out: &mut Output) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "   text\t   data\t    bss\t    dec\t    hex\tfilename")?;
    for (position, row) in rows.iter().enumerate() {
        match &row.diff {
            Some(Figures([text, data, bss, dec, ..])) if position > 0 => {
                let hex = format!("{}{:x}", if *dec < 0 { '-' } else { '+' }, dec.unsigned_abs());
                write!(out, "{text:>+7}\t{data:>+7}\t{bss:>+7}\t{dec:>+7}\t{hex:>7}")?;
            }
            _ => {
                let [text, data, bss, dec, ..] = row.figures.0;
                write!(out, "{text:>7}\t{data:>7}\t{bss:>7}\t{dec:>7}\t{dec:>7x}")?;
            }
        }
        writeln!(out, "\t{}", row.label())?;
    }
    if !rows.iter().any(|row| row.figures.has_tags()) {
        return Ok(());
    }
    writeln!(out, "\n   tags\tsection\t relocs\tstrings\tfilename")?;
    for (position, row) in rows.iter().enumerate() {
        match &row.diff {
            Some(Figures([.., tags, section, _, relocs, strings])) if position > 0 => {
                write!(out, "{tags:>+7}\t{section:>+7}\t{relocs:>+7}\t{strings:>+7}")?;
            }
            _ => {
                let [.., tags, section, _, relocs, strings] = row.figures.0;
                write!(out, "{tags:>7}\t{section:>7}\t{relocs:>7}\t{strings:>7}")?;
            }
        }
        writeln!(out, "\t{}", row.label())?;
    }
    Ok(())
}

fn json(rows: &[Row], out: &mut Output) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, rows)?;
    writeln!(out)
}

fn csv(rows: &[Row], diff: bool, out: &mut Output) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(&mut *out);
    let mut header = vec!["filename".to_owned(), "archive".to_owned()];
    header.extend(COLUMNS.map(str::to_owned));
    if diff {
        header.extend(COLUMNS.map(|name| format!("{name}_diff")));
    }
    writer.write_record(&header)?;
    for row in rows {
        let mut record = vec![row.filename.clone(), row.archive.clone()];
        record.extend(row.figures.0.map(|value| value.to_string()));
        if let Some(diff) = &row.diff {
            record.extend(diff.0.map(|value| value.to_string()));
        }
        writer.write_record(&record)?;
    }
    writer.flush()
}
