//! What codetag prints on stderr when a program ends that was started with the word `exit`.

/// What the page says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    state: String,
    tracked_objs: u64,
}

/// What a program wrote to stderr itself: all before its last page.
pub(super) fn before_page(stderr: &[u8]) -> &[u8] {
    const FIRST_LINE: &[u8] = b"Heap:\n";
    let starts_page = |at: &usize| {
        stderr[*at..].starts_with(FIRST_LINE) && (*at == 0 || stderr[*at - 1] == b'\n')
    };
    let start = (0..stderr.len()).rev().find(starts_page);
    &stderr[..start.unwrap_or(stderr.len())]
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
            let cause = match (self.state.as_str(), due) {
                ("on", "off") => {
                    ": leave codetag::enable() out of what is measured, where CODETAG switches"
                }
                ("off", "on") => {
                    ": leave codetag::disable() out of what is measured, where CODETAG switches, or see why it could \
                     not be switched on in the page that is kept"
                }
                ("tags off", _) => {
                    ": its tags are compiled out: leave out --cfg codetag_off and default-features = false"
                }
                (_, "tags off") => {
                    ": its tags cannot be compiled out: is CODETAG_BUILD set by a configuration of cargo's?"
                }
                _ => "",
            };
            return Err(format!(
                "its state at the end was {}, and {due} was due{cause}",
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
    use super::{Page, before_page};

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
    fn a_program_s_own_words_end_where_its_page_starts() {
        assert_eq!(before_page(PAGE.as_bytes()), b"said before\n");
        assert_eq!(before_page(b"Heap:\nProfiling:\n"), b"");
        assert_eq!(before_page(b"a Heap:\n"), b"a Heap:\n");
        assert_eq!(before_page(b""), b"");
    }

    #[test]
    fn another_state_has_a_remedy() {
        for (state, due, remedy) in [
            ("on", "off", "codetag::enable()"),
            ("off", "on", "codetag::disable()"),
            ("tags off", "on", "--cfg codetag_off"),
            ("off", "tags off", "CODETAG_BUILD"),
        ] {
            let page = Page {
                state: state.to_owned(),
                tracked_objs: 0,
            };
            let error = page.confirm(due).expect_err("another state");
            assert!(error.contains(remedy), "{error}");
        }
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
