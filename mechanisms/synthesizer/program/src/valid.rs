//! The conditions that a program has to meet so that the runtime can execute it.

use packet::Annotations;

use crate::location::{ByteLocation, IPV4};
use crate::question::Question;
use crate::{ChecksumOperation, Program, TrafficClass};

/// Checks that no question about bytes and no class reads bytes ahead of the packet's start, and that rule
/// lists refer to no header there. Also checks that checksum operations concern no bytes ahead of the packet,
/// that updates of the IPv4 checksum are for whole words of a header without options, and that each write
/// goes to the packet or lies within its annotations. Sums and checksums in questions, and the operations
/// before steps, are not checked.
///
/// # Errors
/// If a part of the program cannot be run. The text names the part and the reason.
pub fn validate(program: &Program) -> Result<(), String> {
    for node in &program.nodes {
        if matches!(node.question, Question::Bytes { offset, .. } if offset < 0) {
            return Err(format!("question {}: before the start of the packet", node.question));
        }
    }
    if program.lists.iter().any(|list| list.headers.iter().any(|&header| header < 0)) {
        return Err("a list of rules about headers before the start of the packet".into());
    }
    let mut classes = program.classes.iter().enumerate();
    classes.try_for_each(|(number, class)| operation(class).map_err(|why| format!("c{number}: {why}")))
}

/// Checks the operation of a class: the bytes that it reads and writes, and the words of its checksum
/// updates.
fn operation(class: &TrafficClass) -> Result<(), &'static str> {
    for write in &class.writes {
        if matches!(write.value.from(), Some((ByteLocation::Byte(offset), _)) if offset < 0) {
            return Err("it reads before the start of the packet");
        }
        match write.place {
            ByteLocation::Annotation(first)
                if usize::from(first) + write.value.length() > Annotations::SIZE =>
            {
                return Err("it writes past the end of the annotations");
            }
            ByteLocation::Leased(..) => return Err("it writes what is not in the packet"),
            ByteLocation::Annotation(_) | ByteLocation::Byte(_) => {}
        }
    }
    if class.checksum.as_ref().is_some_and(|checksum| checksum.header() < class.front()) {
        return Err("it sums up what is not in the packet");
    }
    if let Some(ChecksumOperation::Updated { header, words }) = &class.checksum {
        let is_outside =
            |word: &i32| *word < 0 || !(0..IPV4).contains(&(word - header)) || (word - header) % 2 != 0;
        if words.iter().any(is_outside) {
            return Err("it sums up what is not in the header");
        }
    }
    if let Some(sum) = &class.transport_checksum
        && sum.words.iter().copied().chain([sum.place()]).any(|offset| offset < 0)
    {
        return Err("it sums up what is not in the packet");
    }
    Ok(())
}
