//! A line chart as SVG, written whole or not at all.

use plotters::prelude::*;
use std::io::{self, Write};
use std::path::Path;

/// Points that a line has at most: as many as the chart is wide.
pub(super) const POINTS: u64 = 1000;

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 600;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// What a chart shows.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

/// Whether a file can be made at `path`, as far as can be told before the work.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    tempfile::tempfile_in(dir_of(path)).map(drop)
}

fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

impl Chart {
    /// Writes the chart to `path`, in place of what may be there.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = self.svg().map_err(io::Error::other)?;
        let mut file = tempfile::NamedTempFile::new_in(dir_of(path))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        readable(&file)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// The text of the chart; the same data give the same bytes.
    fn svg(&self) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let end = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let (x_end, y_end) = (end(|point| point.0).max(1.0), end(|point| point.1).max(1.0));
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
            area.fill(&WHITE).map_err(fault)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 20))
                .margin(12)
                .x_label_area_size(45)
                .y_label_area_size(75)
                .build_cartesian_2d(0.0..x_end, 0.0..y_end * 1.05)
                .map_err(fault)?;
            chart
                .configure_mesh()
                .x_desc(self.x)
                .y_desc(self.y)
                .x_label_formatter(&|x| format!("{x:.0}"))
                .y_label_formatter(&|y| format!("{y:.0}"))
                .light_line_style(WHITE)
                .draw()
                .map_err(fault)?;
            for (at, line) in self.lines.iter().enumerate() {
                let colour = Palette99::pick(at).to_rgba();
                chart
                    .draw_series(LineSeries::new(
                        line.points.iter().copied(),
                        colour.stroke_width(2),
                    ))
                    .map_err(fault)?
                    .label(&line.name)
                    .legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                    });
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .label_font(("sans-serif", 14))
                .draw()
                .map_err(fault)?;
            area.present().map_err(fault)?;
        }
        Ok(text)
    }
}

/// Temporary files are for their owner only; a chart is as readable as other new files.
#[cfg(unix)]
fn readable(file: &tempfile::NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_: &tempfile::NamedTempFile) -> io::Result<()> {
    Ok(())
}

fn fault(error: impl std::fmt::Display) -> String {
    format!("the chart cannot be drawn: {error}")
}

/// Turns a value per event into at most [`POINTS`] points, each the largest value since the last.
#[derive(Debug)]
pub(super) struct Sampler {
    step_events: u64,
    largest: f64,
    points: Vec<(f64, f64)>,
}

impl Sampler {
    pub(super) fn new(events: u64) -> Self {
        Self {
            step_events: events.div_ceil(POINTS).max(1),
            largest: 0.0,
            points: Vec::new(),
        }
    }

    /// Event number `event`, from 1, brought the value to `value`.
    pub(super) fn note(&mut self, event: u64, value: u64) {
        self.largest = self.largest.max(value as f64);
        if event.is_multiple_of(self.step_events) {
            self.points.push((event as f64, self.largest));
            self.largest = value as f64;
        }
    }

    pub(super) fn line(self, name: String) -> Line {
        Line {
            name,
            points: self.points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_keeps_the_peak_of_its_events() {
        let mut sampler = Sampler::new(2000);
        for (event, value) in [(1, 5), (2, 3), (3, 1), (4, 2)] {
            sampler.note(event, value);
        }
        let line = sampler.line("a".to_owned());
        assert_eq!(line.points, [(2.0, 5.0), (4.0, 3.0)]);
    }

    #[test]
    fn the_file_appears_whole_and_nothing_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("chart.svg");
        std::fs::write(&path, "old").expect("a file");
        check(&path).expect("can be written");
        let chart = Chart {
            title: "<footprint> & more".to_owned(),
            x: "events",
            y: "kB",
            lines: vec![
                Line {
                    name: "slub".to_owned(),
                    points: vec![(0.0, 0.0), (10.0, 40.0)],
                },
                Line {
                    name: "slob".to_owned(),
                    points: Vec::new(),
                },
            ],
        };
        chart.write(&path).expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
        assert!(text.contains("&lt;footprint&gt; &amp; more"));
        assert!(text.contains("slub") && text.contains("slob"));
        assert!(text.matches("<polyline").count() >= 2);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);

        check(dir.path()).expect_err("a directory");
        check(&dir.path().join("no/chart.svg")).expect_err("no such directory");
        let missing = dir.path().join("no/chart.svg");
        chart.write(&missing).expect_err("no such directory");
    }
}
