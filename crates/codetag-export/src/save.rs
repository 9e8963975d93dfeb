//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the file `path` by `write`: into a new file beside it, which takes its place when all is
/// written. After an error the file is as it was before, or is not there.
///
/// A symbolic link stays and its target is written. What is no file (a device, a pipe) is written
/// straight to. On Unix a new file has the usual permissions, one that is replaced keeps its own.
///
/// # Errors
///
/// What `write` returned, or why the file cannot be made or replaced.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let path = target(path);
    let old = match fs::metadata(&path) {
        Ok(old) if old.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(old) if !old.is_file() => {
            let mut out = BufWriter::new(OpenOptions::new().write(true).open(&path)?);
            write(&mut out)?;
            return out.flush();
        }
        Ok(old) => Some(old.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".codetag-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut out = BufWriter::new(builder.tempfile_in(parent)?);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if let Some(permissions) = old {
        file.as_file().set_permissions(permissions)?;
    }
    let _: File = file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Where a symbolic link leads.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("ours");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("ours").file_name();
        entries
            .map(|entry| name(entry).into_string().expect("UTF-8"))
            .collect()
    }

    #[test]
    fn a_file_is_written_whole() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        save(&path, |out| out.write_all(b"one"))?;
        save(&path, |out| out.write_all(b"two"))?;
        assert_eq!(fs::read(&path)?, b"two");
        assert_eq!(names(folder.path()), ["out"]);
        Ok(())
    }

    #[test]
    fn after_an_error_all_is_as_before() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        let fail = |out: &mut dyn Write| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::Error::other("no more"))
        };
        assert!(save(&path, fail).is_err());
        assert!(names(folder.path()).is_empty());
        fs::write(&path, "old")?;
        assert!(save(&path, fail).is_err());
        assert_eq!(fs::read(&path)?, b"old");
        assert_eq!(names(folder.path()), ["out"]);
        assert!(save(folder.path(), |_| Ok(())).is_err());
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() -> io::Result<()> {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        let mode =
            |path: &Path| Ok::<_, io::Error>(fs::metadata(path)?.permissions().mode() & 0o777);
        save(&path, |_| Ok(()))?;
        let plain = folder.path().join("plain");
        fs::write(&plain, "")?;
        assert_eq!(mode(&path)?, mode(&plain)?);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?;
        let link = folder.path().join("link");
        symlink(&path, &link)?;
        save(&link, |out| out.write_all(b"new"))?;
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert_eq!((fs::read(&path)?, mode(&path)?), (b"new".to_vec(), 0o640));

        save(Path::new("/dev/null"), |out| out.write_all(b"x"))?;
        assert!(!fs::metadata("/dev/null")?.is_file());
        Ok(())
    }
}
