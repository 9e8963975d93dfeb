//! Rows as a table, as csv or as json: the fields of a `Serialize` struct are the columns of all three.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// Columns for people, numbers to the right. Nothing for no rows.
pub(super) fn table<R: Serialize>(rows: &[R], out: &mut impl Write) -> io::Result<()> {
    let mut records = records(rows)?.into_iter();
    let Some(header) = records.next() else {
        return Ok(());
    };
    let records: Vec<Vec<String>> = records.collect();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.iter().map(|name| name.replace('_', " ")))
        .add_rows(&records);
    for (at, column) in table.column_iter_mut().enumerate() {
        let is_number = |cell: &str| cell.is_empty() || cell.parse::<f64>().is_ok();
        if records.iter().all(|record| is_number(&record[at])) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, 2));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Comma-separated values with a header line.
pub(super) fn csv<R: Serialize>(rows: &[R], out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}

/// One JSON document and a line end.
pub(super) fn json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// The header and the cells.
fn records<R: Serialize>(rows: &[R]) -> io::Result<Vec<Vec<String>>> {
    let mut bytes = Vec::new();
    csv(rows, &mut bytes)?;
    csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(&bytes[..])
        .into_records()
        .map(|record| Ok(record?.iter().map(str::to_owned).collect()))
        .collect()
}

/// To one decimal, which is what a figure in per cent is worth here.
pub(super) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        live_objs: u64,
        percent: f64,
    }

    #[test]
    fn the_three_forms_have_the_same_cells() {
        let rows = [
            Row {
                name: "a, b",
                live_objs: 1234,
                percent: tenths(12.349),
            },
            Row {
                name: "c",
                live_objs: 5,
                percent: 1.0,
            },
        ];
        let text = |print: fn(&[Row], &mut Vec<u8>) -> io::Result<()>| {
            let mut out = Vec::new();
            print(&rows, &mut out).expect("memory can be written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            text(table),
            "name  live objs  percent\na, b       1234     12.3\nc             5      1.0\n"
        );
        assert_eq!(
            text(csv),
            "name,live_objs,percent\n\"a, b\",1234,12.3\nc,5,1.0\n"
        );
        table::<Row>(&[], &mut Vec::new()).expect("nothing to print");
    }
}
