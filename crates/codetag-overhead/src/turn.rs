//! One measurement at a time below one target directory: two would measure each other, and write over each other's
//! binaries and outputs.

use crate::child;
use crate::progress::Progress;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Below the directory of the turn.
const SCRATCH: &str = "scratch";

/// Between two looks whether this process is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The turn of this process, until it is dropped. A process that dies gives it back.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "locked as long as it is open")] Option<File>);

impl Turn {
    /// Waits until no other process measures what is built in `dir`, which is made if need be. Waits no longer when
    /// this process is to end.
    ///
    /// # Errors
    ///
    /// A sentence: `dir` cannot be made or opened.
    pub(crate) fn wait(dir: &Path) -> Result<Self, String> {
        let mut progress = None;
        Self::wait_saying(dir, || {
            progress.get_or_insert_with(|| {
                let what = format!("waiting for another measurement in {}", dir.display());
                // Where no bar is seen, a line says why nothing happens.
                if !io::stderr().is_terminal() {
                    eprintln!("codetag: {what}");
                }
                Progress::new(&what, 1)
            });
        })
    }

    /// Calls `waits` each time that it was not there yet.
    fn wait_saying(dir: &Path, mut waits: impl FnMut()) -> Result<Self, String> {
        let sentence = |error| format!("{}: {error}", dir.display());
        fs::create_dir_all(dir).map_err(sentence)?;
        // The directory itself is locked, so that no file is left.
        let file = File::open(dir).map_err(sentence)?;
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            // On a file system without locks as if nobody else measured.
            return Ok(Self(Some(file)));
        }
        let (sender, turn) = mpsc::channel();
        // Ends with this process at the latest.
        thread::spawn(move || {
            let _ = file.lock();
            // Where nobody waits any more, the file is closed.
            let _ = sender.send(file);
        });
        loop {
            match turn.recv_timeout(LOOK) {
                Ok(file) => return Ok(Self(Some(file))),
                Err(_) if child::is_interrupted() => return Ok(Self(None)),
                Err(_) => waits(),
            }
        }
    }
}

/// A directory for files that nobody needs afterwards. Gone when it is dropped or when a signal ends this process;
/// what a killed process left is gone at the next turn.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one in the directory that it is the turn of.
    ///
    /// # Errors
    ///
    /// Why it cannot be emptied or made.
    pub(crate) fn new(_turn: &Turn, dir: &Path) -> io::Result<Self> {
        let scratch = dir.join(SCRATCH);
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        child::set_scratch(Some(scratch.clone()));
        fs::create_dir_all(&scratch)?;
        Ok(Self(scratch))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        child::set_scratch(None);
        // What cannot be removed now is removed at the next turn.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Scratch, Turn};
    use std::fs;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn the_second_has_its_turn_after_the_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("target/overhead");
        let first = Turn::wait(&inner).expect("a turn");
        let (sender, receiver) = channel();
        let second = thread::spawn({
            let inner = inner.clone();
            move || {
                let turn = Turn::wait_saying(&inner, || {
                    let _ = sender.send("waits");
                });
                let _ = sender.send("has it");
                turn
            }
        });
        // However often it looks, it does not have it.
        for _ in 0..3 {
            assert_eq!(receiver.recv(), Ok("waits"));
        }
        drop(first);
        assert_eq!(receiver.iter().last(), Some("has it"));
        drop(second.join().expect("no panic").expect("a turn"));
        Turn::wait_saying(&inner, || panic!("nobody has it")).expect("a turn");
    }

    #[test]
    fn where_no_file_can_be_there_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("a file");
        let error = Turn::wait(&file).expect_err("no directory");
        assert!(error.starts_with(&file.display().to_string()), "{error}");
    }

    #[test]
    fn what_a_killed_process_left_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let turn = Turn::wait(dir.path()).expect("a turn");
        let left = dir.path().join("scratch/deep");
        fs::create_dir_all(&left).expect("a directory");
        let scratch = Scratch::new(&turn, dir.path()).expect("a directory");
        assert!(scratch.path().is_dir() && !left.exists());
        fs::write(scratch.path().join("x"), "").expect("a file");
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
