//! What codetag prints on stderr when a program ends that was started with the word `exit`.

/// What the page says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    state: String,
    tracked_objs: u64,
}

impl Page {
    /// The last page in what a program wrote to stderr.
    pub(super) fn find(stderr: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(stderr);
        let start = text.rfind("Profiling:\n")?;
        let value = |name: &str| {
            let mut lines = text[start..].lines();
            lines.find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(": "))
        };
        let objs = |name| -> Option<u64> {
            let (_, objs) = value(name)?.rsplit_once(", ")?;
            objs.strip_suffix(" objects")?.parse().ok()
        };
        Some(Self {
            state: value("state")?.split(',').next()?.to_owned(),
            tracked_objs: objs("tagged")? + objs("untagged")?,
        })
    }

    /// The number of objects that it tracks, if it is in the state that is due.
    pub(super) fn confirm(self, due: &str) -> Result<u64, String> {
        if self.state != due {
            return Err(format!(
                "its state at the end was {}, and {due} was due",
                self.state
            ));
        }
        if due != "on" && self.tracked_objs > 0 {
            return Err(format!(
                "it tracks {} objects, and its state is {due}",
                self.tracked_objs
            ));
        }
        Ok(self.tracked_objs)
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    const PAGE: &str = "said before\nHeap:\n   obtained:  2.02 MiB (1)\nProfiling:\n                   state: on, for 0.000 s\n\
        ids left: 1\nCoverage:\n                  tagged:     33.2 KiB (34000) requested, 1001 objects\n\
        untagged:        544 B (544) requested, 1 objects\n               untracked:  0 B (0) in slots, 7 objects\n";

    #[test]
    fn the_state_and_the_objects_are_read() {
        let page = Page::find(PAGE.as_bytes()).expect("a page");
        assert_eq!(page.clone().confirm("on"), Ok(1_002));
        assert!(
            page.confirm("off")
                .expect_err("on")
                .contains("was on, and off was due")
        );
        let off = PAGE.replace("state: on,", "state: tags off,");
        let page = Page::find(off.as_bytes()).expect("a page");
        assert!(
            page.confirm("tags off")
                .expect_err("tracks")
                .contains("1002 objects")
        );
    }

    #[test]
    fn what_is_no_page_is_none() {
        for text in [
            "",
            "Profiling:\n",
            "Profiling:\nstate: on\n",
            "state: on, for 1 s\n",
        ] {
            assert_eq!(Page::find(text.as_bytes()), None, "{text}");
        }
    }
}
