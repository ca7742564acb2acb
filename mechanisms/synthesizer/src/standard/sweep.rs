//! Removal of elements that no packet reaches any more, after others have been inserted in their place.

use std::collections::{BTreeMap, BTreeSet};

use lang::{Connection, Graph, Span};

/// The class of the source that is connected to inputs without packets: it emits nothing.
const NOTHING: &str = "Idle";

/// Returns the configuration without the elements that no packet reaches any more. Elements whose names occur
/// in arguments of others stay. An input that loses all of its connections gets an Idle, because the element
/// may require a connection there. `before` is the configuration before elements were added to it.
pub(super) fn sweep(graph: &Graph, before: &Graph) -> Graph {
    let counts = before.port_counts();
    let numbers = 0..graph.elements.len();
    let is_source = |number: &usize| {
        counts.get(*number).is_some_and(|count| count.0 == 0) && graph.elements[*number].class != NOTHING
    };
    let mut stays: BTreeSet<usize> = BTreeSet::new();
    let mut work: Vec<usize> = numbers.clone().filter(is_source).collect();
    loop {
        while let Some(number) = work.pop() {
            if stays.insert(number) {
                let leading = graph.connections.iter().filter(|connection| connection.from.0 == number);
                work.extend(leading.map(|connection| connection.to.0));
            }
        }
        let named: BTreeSet<&str> =
            stays.iter().flat_map(|&number| words(&graph.elements[number].config)).collect();
        let is_named =
            |number: &usize| !stays.contains(number) && is_spoken_of(&graph.elements[*number].name, &named);
        work.extend(numbers.clone().filter(is_named));
        if work.is_empty() {
            break;
        }
    }
    let out: Vec<bool> = numbers.map(|number| !stays.contains(&number)).collect();
    let (mut swept, numbers) = graph.without(&out);
    // An input that has lost all of its connections gets a source that emits nothing.
    let fed: BTreeSet<(usize, usize)> = swept.connections.iter().map(|connection| connection.to).collect();
    let had = before
        .connections
        .iter()
        .chain(&graph.connections)
        .filter_map(|c| Some(((numbers[c.to.0]?, c.to.1), c.span)));
    let lost: BTreeMap<(usize, usize), Span> = had.filter(|(input, _)| !fed.contains(input)).collect();
    for (to, span) in lost {
        swept.add("nothing", NOTHING, "", span);
        swept.connections.push(Connection { from: (swept.elements.len() - 1, 0), to, span });
    }
    swept
}

/// Returns the words in the arguments of an element that may be names of elements.
fn words(config: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '/');
    config.split(move |c: char| !is_part(c)).filter(|word| !word.is_empty())
}

/// True if any of `words`, the words in arguments of elements, refers to the element with the name `name`. A
/// word may be the name as seen from inside of any enclosing compound element.
fn is_spoken_of(name: &str, words: &BTreeSet<&str>) -> bool {
    let mut rest = Some(name);
    while let Some(name) = rest {
        if words.contains(name) {
            return true;
        }
        rest = name.split_once('/').map(|(_, behind)| behind);
    }
    false
}
