//! A program without a `TagAlloc`.

use codetag::{EnableError, StateKind};

#[codetag::alloc_tag]
fn keep() -> Vec<u8> {
    vec![1; 1000]
}

#[test]
fn without_a_tag_alloc_enable_says_what_to_add_and_reports_are_empty() {
    let _held = keep();
    for _ in 0..2 {
        let error = codetag::enable().unwrap_err();
        if codetag::state().kind == StateKind::TagsOff {
            assert!(matches!(error, EnableError::TagsOff));
        } else {
            assert!(matches!(error, EnableError::NotInstalled));
            let text = error.to_string();
            assert!(text.contains("#[global_allocator]"), "{text}");
            assert!(
                text.contains("static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();"),
                "{text}"
            );
        }
        assert!(!codetag::is_enabled());
        codetag::disable();
    }
    let page = codetag::show_mem();
    let s = page.snapshot();
    assert_eq!(
        (s.heap().obtained_bytes, s.heap().unaccounted_bytes),
        (0, 0)
    );
    assert_eq!((s.usages().count(), s.classes().count()), (0, 0));
    assert_eq!(s.untracked(), codetag::Untracked::default());
    assert!(page.to_string().contains("Memory allocations:\n"));
    let listed = codetag::tags().any(|t| t.function() == "keep");
    let all = codetag::allocinfo().to_string();
    assert_eq!(all.contains("func:keep requested:0 \n"), listed, "{all}");
    assert_eq!(codetag::shrink(), 0);
}
