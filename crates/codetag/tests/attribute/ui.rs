//! What the compiler says where the attribute cannot stand, and that it says nothing else.

#[test]
fn errors_are_one_sentence_at_the_tokens_of_the_user() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
