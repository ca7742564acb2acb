//! Elements at the edge of the graph: captures now, interfaces later.

pub mod encapsulation;
pub mod from_dump;
pub mod from_ip_summary_dump;
pub mod to_dump;
pub mod to_ip_summary_dump;

use element::Class;

/// Every class of this crate.
pub static CLASSES: &[&Class] =
    &[&from_dump::CLASS, &from_ip_summary_dump::CLASS, &to_dump::CLASS, &to_ip_summary_dump::CLASS];

/// The system's words, without the number that Rust adds.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}
