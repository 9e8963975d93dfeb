//! With the tags compiled out the attribute changes nothing and nothing is listed.

use codetag_subject_fourteen as _;

#[test]
fn nothing_is_listed_and_every_shape_runs_untagged() {
    assert_eq!(codetag::tags().count(), 0);
    let all = [
        codetag_subject_2018::observations(),
        codetag_subject_2021::observations(),
        codetag_subject_2024::observations(),
    ];
    for observations in all {
        assert_eq!(observations.len(), 84);
        for (shape, seen) in observations {
            assert_eq!(seen, "untagged", "{shape}");
        }
    }
}

/// An item that the twin gave another form would have another size.
#[test]
fn a_future_keeps_its_form() {
    async fn plain(data: [u8; 100], text: &str) -> usize {
        std::future::ready(()).await;
        data.len() + text.len()
    }
    #[codetag::alloc_tag(name = "named")]
    async fn tagged(data: [u8; 100], text: &str) -> usize {
        std::future::ready(()).await;
        data.len() + text.len()
    }
    assert_eq!(
        size_of_val(&plain([0; 100], "")),
        size_of_val(&tagged([0; 100], ""))
    );
}
