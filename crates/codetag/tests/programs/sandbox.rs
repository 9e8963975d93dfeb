//! System calls that are denied from now on, as a sandbox would.

use std::io;

/// A system call that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied {
    /// Its number.
    pub(crate) call: libc::c_long,
    /// Only with this argument, by index and value.
    pub(crate) with: Option<(usize, u64)>,
    /// What it fails with.
    pub(crate) errno: i32,
}

impl Denied {
    pub(crate) const fn always(call: libc::c_long) -> Self {
        Self {
            call,
            with: None,
            errno: libc::EACCES,
        }
    }

    pub(crate) const fn with(call: libc::c_long, index: usize, value: u64) -> Self {
        Self {
            with: Some((index, value)),
            ..Self::always(call)
        }
    }
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, k: u32, else_skip: u8) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: else_skip,
        k,
    }
}

/// Makes the calls fail, in this thread and those that it starts, for good. Allocates nothing.
pub(crate) fn deny(calls: &[Denied]) -> io::Result<()> {
    let mut filter = [step(0, 0, 0); 64];
    let mut n = 0;
    let mut add = |s| {
        filter[n] = s;
        n += 1;
    };
    for denied in calls {
        let number = u32::try_from(denied.call).expect("a number of a call");
        add(step(LOAD, 0, 0));
        match denied.with {
            None => add(step(IF_EQUAL, number, 1)),
            Some((index, value)) => {
                let at = 16 + 8 * u32::try_from(index).expect("an index");
                add(step(IF_EQUAL, number, 5));
                add(step(LOAD, at, 0));
                add(step(IF_EQUAL, value as u32, 3));
                add(step(LOAD, at + 4, 0));
                add(step(IF_EQUAL, (value >> 32) as u32, 1));
            }
        }
        add(step(
            RETURN,
            libc::SECCOMP_RET_ERRNO | denied.errno as u32,
            0,
        ));
    }
    add(step(RETURN, libc::SECCOMP_RET_ALLOW, 0));
    let program = libc::sock_fprog {
        len: n as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program lives through the calls, which copy it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
