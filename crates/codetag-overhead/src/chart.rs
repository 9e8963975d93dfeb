//! Times relative to tags off as bars, as SVG.

use crate::figures::Figure;
use plotters::prelude::*;

const WIDTH: u32 = 1_200;
/// Of one bar.
const BAR: u32 = 14;
/// Of a workload's name above its bars.
const TITLE: u32 = 26;
const TOP: u32 = 60;
const LEFT: i32 = 230;
/// Longer bars are cut, and say how long they would be.
const RATIO_MAX: f64 = 4.0;

/// One bar.
#[derive(Clone, Debug)]
struct Bar {
    row: String,
    ratio: f64,
    low: f64,
    high: f64,
}

/// The text of the chart of all ratios to tags off; the same figures give the same bytes.
///
/// # Errors
///
/// A sentence: there are no ratios, or it cannot be drawn.
pub fn svg(title: &str, figures: &[Figure]) -> Result<String, String> {
    let mut groups: Vec<(String, Vec<Bar>)> = Vec::new();
    for figure in figures
        .iter()
        .filter(|figure| figure.unit == "ratio" && figure.what.ends_with("/ tags off"))
    {
        let name = match figure.workload.as_str() {
            "" => figure.what.clone(),
            workload => workload.to_owned(),
        };
        if groups.last().is_none_or(|(last, _)| *last != name) {
            groups.push((name.clone(), Vec::new()));
        }
        if let Some((_, bars)) = groups.last_mut() {
            bars.push(Bar {
                row: figure.row.clone(),
                ratio: figure.value,
                low: figure.low.unwrap_or(figure.value),
                high: figure.high.unwrap_or(figure.value),
            });
        }
    }
    if groups.is_empty() {
        return Err("there are no times to draw".to_owned());
    }
    draw(title, &groups).map_err(|error| format!("the chart cannot be drawn: {error}"))
}

fn draw(title: &str, groups: &[(String, Vec<Bar>)]) -> Result<String, Box<dyn std::error::Error>> {
    let bars: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let height = TOP + u32::try_from(groups.len())? * TITLE + u32::try_from(bars)? * BAR + 20;
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    let fault = |error: DrawingAreaErrorKind<_>| error.to_string();
    area.fill(&WHITE).map_err(fault)?;
    let style = |size: i32| ("sans-serif", size).into_font();
    area.draw(&Text::new(title.to_owned(), (12, 12), style(18)))
        .map_err(fault)?;
    area.draw(&Text::new(
        "time / tags off, with 95 % interval",
        (12, 36),
        style(12),
    ))
    .map_err(fault)?;
    let scale = f64::from(i32::try_from(WIDTH)? - LEFT - 80) / RATIO_MAX;
    let x = |ratio: f64| LEFT + (ratio.clamp(0.0, RATIO_MAX) * scale).round() as i32;
    let bottom = i32::try_from(height)? - 10;
    area.draw(&PathElement::new(
        [(x(1.0), i32::try_from(TOP)? - 6), (x(1.0), bottom)],
        BLACK.mix(0.4),
    ))
    .map_err(fault)?;
    let mut y = i32::try_from(TOP)?;
    let (bar_height, title_height) = (i32::try_from(BAR)?, i32::try_from(TITLE)?);
    for (name, bars) in groups {
        area.draw(&Text::new(name.clone(), (12, y + 8), style(13)))
            .map_err(fault)?;
        y += title_height;
        for (at, bar) in bars.iter().enumerate() {
            let middle = y + bar_height / 2;
            let colour = Palette99::pick(at).mix(0.7);
            area.draw(&Rectangle::new(
                [(LEFT, y + 2), (x(bar.ratio), y + bar_height - 2)],
                colour.filled(),
            ))
            .map_err(fault)?;
            area.draw(&PathElement::new(
                [(x(bar.low), middle), (x(bar.high), middle)],
                BLACK,
            ))
            .map_err(fault)?;
            area.draw(&Text::new(bar.row.clone(), (24, y), style(11)))
                .map_err(fault)?;
            let label = format!("{:.3}", bar.ratio);
            let end = x(bar.ratio).max(x(bar.high)) + 6;
            area.draw(&Text::new(label, (end, y), style(11)))
                .map_err(fault)?;
            y += bar_height;
        }
    }
    area.present().map_err(fault)?;
    drop(area);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::svg;
    use crate::figures::Figure;

    #[test]
    fn every_ratio_is_a_bar_with_its_name_and_figure() {
        let figure = |row: &str, workload: &str, value| Figure {
            table: "time",
            row: row.into(),
            workload: workload.into(),
            what: "time / tags off".into(),
            value,
            low: Some(value - 0.01),
            high: Some(value + 0.01),
            unit: "ratio",
            ..Figure::default()
        };
        let figures = [
            figure("default-off", "small.paired", 1.05),
            figure("enabled <at start>", "small.paired", 1.125),
            figure("default-off", "larger.json", 26.4),
        ];
        let text = svg("a & b", &figures).expect("a chart");
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
        for said in [
            "a &amp; b",
            "enabled &lt;at start&gt;",
            "small.paired",
            "larger.json",
            "1.050",
            "26.400",
        ] {
            assert!(text.contains(said), "{said}");
        }
        assert!(svg("none", &[]).expect_err("nothing").contains("no times"));
    }
}
