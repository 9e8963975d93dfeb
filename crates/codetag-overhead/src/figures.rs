//! What comes out: figures, each with its unit and source, and the tables that show them.

use crate::budget::Judged;
use crate::machine::Machine;
use crate::stats::Interval;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// One measured figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Which table it belongs to.
    pub table: &'static str,
    /// The configuration or allocator.
    pub row: String,
    /// What was run or built.
    pub workload: String,
    /// What was measured.
    pub what: String,
    /// The figure; a median where it has an interval.
    pub value: f64,
    /// Lower end of the interval or range, if it has one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Of all three.
    pub unit: &'static str,
    /// Who measured it.
    pub source: &'static str,
}

impl Figure {
    /// With an interval.
    #[must_use]
    pub fn of_interval(mut self, interval: Interval) -> Self {
        self.value = interval.p50;
        self.low = Some(interval.low);
        self.high = Some(interval.high);
        self
    }
}

/// A table for people.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// What it shows.
    pub heading: String,
    /// Names of the columns; the first is that of the rows' names.
    pub header: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables for a terminal.
    Text,
    /// The same for a document.
    Markdown,
    /// One document with every figure.
    Json,
    /// One line per figure.
    Csv,
}

/// Everything that one command measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// On what.
    pub machine: Machine,
    /// How it was measured, what is missing and why; sentences.
    pub notes: Vec<String>,
    /// Every figure.
    pub figures: Vec<Figure>,
    /// What was asked, and whether it is met.
    pub budgets: Vec<Judged>,
    /// Rows that have no figures, each with its cause.
    pub errors: Vec<String>,
    /// How far it came, if it was told to end.
    pub interrupted: Option<String>,
    /// For people.
    #[serde(skip)]
    pub sections: Vec<Section>,
}

impl Report {
    /// Writes everything.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Text | Format::Markdown => self.tables(format == Format::Markdown, out),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, self)?;
                writeln!(out)
            }
            Format::Csv => self.csv(out),
        }
    }

    fn tables(&self, is_markdown: bool, out: &mut dyn Write) -> io::Result<()> {
        let heading = |text: &str| {
            if is_markdown {
                format!("### {text}\n")
            } else {
                text.to_owned()
            }
        };
        writeln!(out, "{}", self.machine.sentence())?;
        for section in self
            .sections
            .iter()
            .filter(|section| !section.rows.is_empty())
        {
            writeln!(out, "\n{}", heading(&section.heading))?;
            section.write(is_markdown, out)?;
        }
        if !self.budgets.is_empty() {
            writeln!(out, "\n{}", heading("Budgets"))?;
            self.budget_section().write(is_markdown, out)?;
        }
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "- {note}")?;
        }
        for error in &self.errors {
            writeln!(out, "{}error: {error}", if is_markdown { "- " } else { "" })?;
        }
        match &self.interrupted {
            Some(how_far) => writeln!(out, "interrupted: {how_far}"),
            None => Ok(()),
        }
    }

    fn budget_section(&self) -> Section {
        Section {
            heading: String::new(),
            header: ["", "the kernel's", "measured", "at most", ""]
                .map(str::to_owned)
                .into(),
            rows: self.budgets.iter().map(Judged::cells).collect(),
        }
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record([
            "table", "row", "workload", "what", "value", "low", "high", "at_most", "unit",
            "source", "text",
        ])?;
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let text = |table: &str, what: &str, text: &str| {
            let mut record = vec![String::new(); 11];
            (record[0], record[3], record[10]) =
                (table.to_owned(), what.to_owned(), text.to_owned());
            record
        };
        for (name, value) in self.machine.fields() {
            csv.write_record(text("machine", name, &value))?;
        }
        for figure in &self.figures {
            csv.write_record([
                figure.table,
                &figure.row,
                &figure.workload,
                &figure.what,
                &figure.value.to_string(),
                &number(figure.low),
                &number(figure.high),
                "",
                figure.unit,
                figure.source,
                "",
            ])?;
        }
        for budget in &self.budgets {
            csv.write_record([
                "budget",
                "",
                "",
                &budget.what,
                &number(budget.value),
                &number(budget.low),
                &number(budget.high),
                &budget.at_most.to_string(),
                "",
                "",
                &budget.verdict,
            ])?;
        }
        for note in &self.notes {
            csv.write_record(text("note", "", note))?;
        }
        for error in &self.errors {
            csv.write_record(text("error", "", error))?;
        }
        if let Some(how_far) = &self.interrupted {
            csv.write_record(text("interrupted", "", how_far))?;
        }
        csv.flush()
    }
}

impl Section {
    fn write(&self, is_markdown: bool, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(if is_markdown {
            presets::ASCII_MARKDOWN
        } else {
            presets::NOTHING
        });
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A cell for a figure that may not be there.
pub(crate) fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Four digits are more than a time has.
pub(crate) fn significant(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: f64) -> String {
    format!("{:.2}", bytes / f64::from(1 << 20))
}

/// A command line as somebody would type it.
pub fn command_line(args: impl IntoIterator<Item = std::ffi::OsString>) -> String {
    let quoted = |arg: std::ffi::OsString| {
        let arg = arg.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
        if !arg.is_empty() && arg.chars().all(is_plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', "'\\''"))
        }
    };
    args.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Figure, Format, Report, Section, command_line};
    use crate::machine::Machine;

    fn report() -> Report {
        Report {
            machine: Machine::here("codetag overhead"),
            notes: vec!["A note.".into()],
            figures: vec![Figure {
                table: "time",
                row: "default-off".into(),
                workload: "small.paired".into(),
                what: "time / tags off".into(),
                value: 1.05,
                low: Some(1.0),
                unit: "ratio",
                source: "clock",
                ..Figure::default()
            }],
            budgets: Vec::new(),
            errors: vec!["dhat: cannot be built: no".into()],
            interrupted: Some("1 of 9 rounds done".into()),
            sections: vec![Section {
                heading: "Time".into(),
                header: vec![String::new(), "ns".into()],
                rows: vec![vec!["a | b".into(), "1".into()]],
            }],
        }
    }

    fn written(format: Format) -> String {
        let mut out = Vec::new();
        report().write(format, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_format_has_figures_errors_and_how_far_it_came() {
        let json: serde_json::Value = serde_json::from_str(&written(Format::Json)).expect("JSON");
        assert_eq!(json["figures"][0]["value"], 1.05);
        assert_eq!(json["figures"][0]["source"], "clock");
        assert_eq!(json["interrupted"], "1 of 9 rounds done");
        assert_eq!(json["machine"]["command"], "codetag overhead");
        let csv = written(Format::Csv);
        assert!(
            csv.contains("\ntime,default-off,small.paired,time / tags off,1.05,1,,,ratio,clock,\n"),
            "{csv}"
        );
        assert!(
            csv.contains("\nerror,,,,,,,,,,dhat: cannot be built: no\n"),
            "{csv}"
        );
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        assert!(
            reader
                .records()
                .all(|record| record.is_ok_and(|record| record.len() == 11))
        );
        for format in [Format::Text, Format::Markdown] {
            let text = written(format);
            assert!(
                text.contains("error: dhat: cannot be built: no\n"),
                "{text}"
            );
            assert!(
                text.ends_with("interrupted: 1 of 9 rounds done\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        let args = ["codetag", "a b", "it's", "--x=1", ""].map(Into::into);
        assert_eq!(command_line(args), r"codetag 'a b' 'it'\''s' --x=1 ''");
    }
}
