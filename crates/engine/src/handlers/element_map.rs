//! The graph's handler `element_map`: all element classes with their ports, in the XML form that Click's
//! tools read.

use std::fmt::Write;

use element::Class;

/// Returns the element map of these classes. An alias has an entry of its own, whose manual is the page of
/// the class.
pub(super) fn of(classes: &[&Class]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" standalone=\"yes\"?>\n<elementmap xmlns=\"http://www.lcdf.org/click/xml/\">\n",
    );
    for class in classes {
        let Class { name: page, ports, processing, flow, .. } = class;
        for name in class.names() {
            // The names and codes of classes have no characters that XML reserves.
            let _ = writeln!(
                text,
                "  <entry name=\"{name}\" docname=\"{page}\" portcount=\"{ports}\" processing=\"{processing}\" \
                 flowcode=\"{flow}\" />"
            );
        }
    }
    text.push_str("</elementmap>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_an_entry() {
        static CLASS: Class =
            Class { name: "A", aliases: &["B"], ports: "1/1-2", processing: "a/ah", ..Class::DEFAULT };
        let entry = |name| {
            format!(
                "  <entry name=\"{name}\" docname=\"A\" portcount=\"1/1-2\" processing=\"a/ah\" flowcode=\"x\" />"
            )
        };
        let map = of(&[&CLASS]);
        let lines: Vec<&str> = map.lines().collect();
        assert_eq!(lines[2..], [entry("A").as_str(), &entry("B"), "</elementmap>"]);
    }
}
