//! What a tag adds to its function, for the profiles that are named (`off-16-abort`): a line each with the profile,
//! bytes of `.text` on the mean of 1,000 functions, and bytes of the tag with its relocation. The same figures are in
//! `codetag overhead`, which takes longer.

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("text_per_tag: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(all(target_os = "linux", not(codetag_portable)))]
fn run() -> Result<(), String> {
    use codetag_overhead::progress::Progress;
    use codetag_overhead::text::{self, Profile};
    use codetag_overhead::tree::Tree;

    let names: Vec<String> = std::env::args().skip(1).collect();
    let profiles: Vec<Profile> = if names.is_empty() {
        text::profiles().collect()
    } else {
        names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?
    };
    let here = std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
    let tree = Tree::find(&here)?;
    let progress = Progress::new("building", text::steps(&profiles));
    let (pairs, errors) = text::measure(&tree, &profiles, &progress);
    drop(progress);
    for pair in &pairs {
        let data = pair
            .data_per_tag()
            .ok_or_else(|| format!("{}: the program has no tags", pair.profile))?;
        println!("{} {:.3} {data:.3}", pair.profile, pair.text_per_function());
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("; "))
    }
}

#[cfg(not(all(target_os = "linux", not(codetag_portable))))]
fn run() -> Result<(), String> {
    Err("sizes are measured on Linux only".to_owned())
}
