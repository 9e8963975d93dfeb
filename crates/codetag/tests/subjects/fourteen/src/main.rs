//! Prints the function of every listed tag of the fourteen, in the order of the section.

fn main() {
    let kept = codetag_subject_fourteen::called();
    assert_eq!(kept, [1]);
    for tag in codetag::tags() {
        if tag.krate().starts_with("codetag_subject_") {
            println!("{}", tag.function());
        }
    }
}
