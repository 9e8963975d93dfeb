//! What the switch is made of in a linked program: few sites, and beside them the instructions of a
//! program without tags. LTO off; with `CODETAG_LONG=1` thin and fat too.

#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(codetag_portable),
    not(codetag_flag_switch)
))]

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use object::{Object, ObjectSection, ObjectSymbol};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the subject; its file.
fn built(lto: &str, tags: bool) -> PathBuf {
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(if tags { "sited" } else { "sited-off" });
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["build", "--quiet", "--release", "--manifest-path"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/subjects/sited/Cargo.toml"
        ))
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_PROFILE_RELEASE_LTO", lto);
    if tags {
        cargo.env_remove("CODETAG_BUILD");
    } else {
        cargo.env("CODETAG_BUILD", "off");
    }
    assert!(cargo.status().unwrap().success());
    let program = target.join("release/codetag-subject-sited");
    // Figures first: a program that does not work has no text worth looking at.
    let said = Command::new(&program)
        .env_remove("CODETAG")
        .output()
        .unwrap();
    assert_eq!(said.stdout, b"ok\n", "{said:?}");
    program
}

/// Addresses of the sites.
fn sites(file: &object::File<'_>) -> Vec<u64> {
    let Some(list) = file.section_by_name("codetag_sites") else {
        return Vec::new();
    };
    let data = list.data().unwrap();
    let word = |bytes: &[u8]| i64::from(i32::from_le_bytes(bytes.try_into().unwrap()));
    (0..data.len() / 8)
        .map(|i| (list.address() + i as u64 * 8).wrapping_add_signed(word(&data[i * 8..][..4])))
        .collect()
}

/// The instructions from the start of a function to its first return, none of its jumps taken.
fn straight(file: &object::File<'_>, function: &str) -> Vec<Instruction> {
    let symbol = file
        .symbols()
        .find(|s| s.name().is_ok_and(|n| n.contains(function)));
    let symbol = symbol.unwrap_or_else(|| panic!("no {function}"));
    let text = file.section_by_name(".text").unwrap();
    let from = (symbol.address() - text.address()) as usize;
    let code = &text.data().unwrap()[from..from + symbol.size() as usize];
    let decoder = Decoder::with_ip(64, code, symbol.address(), DecoderOptions::NONE);
    let mut all: Vec<_> = decoder.into_iter().collect();
    let end = all
        .iter()
        .position(|i| i.flow_control() == FlowControl::Return);
    all.truncate(end.expect("a return") + 1);
    all
}

/// What an instruction does, whichever registers it does it with: an addition may be one of several, an `or`
/// among them where no bits meet.
fn does(i: &Instruction) -> Mnemonic {
    match i.mnemonic() {
        Mnemonic::Lea if !i.is_ip_rel_memory_operand() => Mnemonic::Add,
        Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Or => Mnemonic::Add,
        other => other,
    }
}

fn check(lto: &str) {
    let (on, off) = (built(lto, true), built(lto, false));
    let (on, off) = (fs::read(on).unwrap(), fs::read(off).unwrap());
    let on = object::File::parse(&*on).unwrap();
    let off = object::File::parse(&*off).unwrap();
    let sites = sites(&on);
    println!("lto {lto}: {} sites", sites.len());
    assert!((3..=8).contains(&sites.len()), "lto {lto}: {sites:x?}");
    assert!(off.section_by_name("codetag_sites").is_none());
    for (function, site) in [
        ("codetag5alloc4path4fast5alloc17h", Mnemonic::Ret),
        ("codetag5alloc4path7dealloc17h", Mnemonic::Test),
    ] {
        let with = straight(&on, function);
        let is_site = |i: &&Instruction| sites.contains(&i.ip());
        let its_sites: Vec<_> = with.iter().filter(is_site).collect();
        assert_eq!(its_sites.len(), 1, "lto {lto}, {function}");
        assert_eq!(its_sites[0].mnemonic(), site, "lto {lto}, {function}");
        // A return is there without tags, too.
        let is_extra = |i: &&Instruction| is_site(i) && site != Mnemonic::Ret;
        let rest: Vec<_> = with.iter().filter(|i| !is_extra(i)).map(does).collect();
        let without: Vec<_> = straight(&off, function).iter().map(does).collect();
        assert_eq!(rest, without, "lto {lto}, {function}");
    }
}

#[test]
fn off_is_the_text_without_tags_but_for_the_sites() {
    check("off");
    if env::var_os("CODETAG_LONG").is_some_and(|v| v == "1") {
        check("thin");
        check("fat");
    }
}
