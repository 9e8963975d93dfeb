//! Time and tables: runs the children in turn.

use crate::child;
use crate::config::{Config, HELD_BYTES, HELD_OBJS};
use crate::results::{Results, Sample};
use std::path::Path;
use std::process::Command;

/// How the workload is to be called.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// Rounds of all configurations.
    pub rounds: usize,
    /// Repeats within one child, of which the fastest counts.
    pub repeats: u32,
    /// Only patterns that start so.
    pub only: &'a str,
}

/// A command that runs the workload, or `wrapper` around it, in `mode`.
pub fn command(
    config: &Config,
    path: &Path,
    wrapper: &[String],
    mode: &str,
    scale: &Scale<'_>,
) -> Command {
    let mut command = match wrapper {
        [] => Command::new(path),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args).arg(path);
            command
        }
    };
    command.args([
        mode,
        "--only",
        scale.only,
        "--repeats",
        &scale.repeats.to_string(),
    ]);
    if config.enable {
        command.arg("--enable");
    }
    command.env_remove("CODETAG");
    if let Some(value) = config.codetag {
        command.env("CODETAG", value);
    }
    command
}

/// What a child must have said before and after its measurement, or its figures are of something else.
///
/// # Errors
///
/// A sentence with what was due and what it said.
pub fn confirm(config: &Config, output: &str) -> Result<(), String> {
    let (objs, bytes) = if config.tracks {
        (HELD_OBJS, HELD_BYTES)
    } else {
        (0, 0)
    };
    for when in ["before", "after"] {
        for (key, due) in [
            ("state", config.state.to_owned()),
            ("tracked_objs", objs.to_string()),
            ("tracked_bytes", bytes.to_string()),
        ] {
            let said = child::value(output, &format!("{key}:{when}")).unwrap_or("nothing");
            if said != due {
                return Err(format!(
                    "{key} {when} the measurement was {said}, and {due} was due"
                ));
            }
        }
    }
    Ok(())
}

/// Runs all configurations that have no error, round by round, and appends their samples. The order turns by
/// one each round and runs backwards in every second one, so that no row always follows the same other. A
/// first round warms up and is thrown away.
pub fn time(
    configs: &[Config],
    results: &mut Results,
    scale: &Scale<'_>,
    progress: &mut dyn FnMut(),
) {
    let count = configs.len();
    for round in 0..=scale.rounds {
        let mut order: Vec<usize> = (0..count).map(|at| (at + round) % count).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let row = &mut results.0[at];
            if row.error.is_none() {
                match sample(&configs[at], &row.path, scale) {
                    Ok(_) if round == 0 => {}
                    Ok(sample) => row.rounds.push(sample),
                    Err(error) => row.error = Some(error),
                }
            }
            progress();
        }
    }
}

fn sample(config: &Config, path: &Path, scale: &Scale<'_>) -> Result<Sample, String> {
    let output = child::run(&mut command(config, path, &[], "time", scale))
        .map_err(|error| error.to_string())?;
    confirm(config, &output)?;
    let cells = child::lines(&output).filter_map(|(key, value)| {
        let (pattern, size) = key.strip_prefix("ns:")?.split_once(':')?;
        Some((
            (pattern.to_owned(), size.parse().ok()?),
            value.parse().ok()?,
        ))
    });
    let sample: Sample = cells.collect();
    if sample.is_empty() {
        Err("the child printed no times".to_owned())
    } else {
        Ok(sample)
    }
}

/// What codetag's tables take per object, of one configuration.
///
/// # Errors
///
/// As of [`confirm`], or what the child says.
pub fn memory(
    config: &Config,
    at: usize,
    results: &mut Results,
    scale: &Scale<'_>,
) -> Result<(), String> {
    let row = &mut results.0[at];
    let output = child::run(&mut command(config, &row.path, &[], "memory", scale))
        .map_err(|error| error.to_string())?;
    confirm(config, &output)?;
    for (key, value) in child::lines(&output) {
        let value: Option<f64> = value.parse().ok();
        if let (Some(size), Some(value)) = (key.strip_prefix("obj_exts_bytes_per_slot:"), value) {
            row.obj_exts
                .extend(size.parse::<u64>().ok().map(|size| (size, value)));
        }
        match key {
            "obj_exts_bytes_per_slot_max" => row.obj_exts_max = value,
            "obj_exts_bytes_per_slot_max_class" => row.obj_exts_max_slot = value,
            "obj_exts_percent" => row.obj_exts_percent = value,
            "page_ext_bytes_per_entry" => row.page_ext = value,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::confirm;
    use crate::config::{ENABLED, configs};

    #[test]
    fn a_child_that_was_not_on_is_an_error() {
        let config = configs(false)[ENABLED];
        let said = |state: &str, objs: u64| {
            ["before", "after"].map(|when| {
                format!("state:{when} {state}\ntracked_objs:{when} {objs}\ntracked_bytes:{when} 810432\n")
            })
        };
        assert_eq!(confirm(&config, &said("on", 1_003).concat()), Ok(()));
        let [before, _] = said("on", 1_003);
        for wrong in [
            said("off", 1_003).concat(),
            said("on", 0).concat(),
            String::new(),
            before,
        ] {
            assert!(confirm(&config, &wrong).is_err(), "{wrong}");
        }
    }
}
