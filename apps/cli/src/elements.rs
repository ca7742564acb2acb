//! `tidegate elements`: prints the manual, which is made of the elements' doc blocks and class
//! declarations.

use std::fmt::Write;

use element::class::ArgKind;
use element::manual::Page;
use element::{Absent, Access, Class, DefaultValue};

use crate::load::{BURST, registry};
use crate::print;
use crate::status::Status;

/// The arguments of `elements`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The element whose page is shown; without NAME, all elements are listed
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> Status {
    let registry = registry();
    let Some(name) = &args.name else { return print(&list(&registry)) };
    match registry.get(name) {
        Some(class) => print(&page(class)),
        None => {
            if let Some(absent) = Absent::find(name) {
                return Err(format!("{}\nhint: {}", absent.error(name), absent.advice).into());
            }
            let names = registry.names();
            let close = lang::nearest(name, names.iter().copied());
            let hint = close.map(|close| format!("; did you mean '{close}'?")).unwrap_or_default();
            Err(format!("unknown element class '{name}'{hint}\n`tidegate elements` lists all of them").into())
        }
    }
}

fn list(registry: &element::Registry) -> String {
    let width = registry.iter().map(|class| class.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for class in registry.iter() {
        let summary = Page::parse(class.manual).summary;
        let _ = writeln!(text, "{:width$}  {summary}", class.name);
    }
    text
}

/// Returns the manual page of one element: its doc block, and the class's declarations of ports, arguments
/// (type, default), handlers (access) and state.
pub(crate) fn page(class: &Class) -> String {
    let page = Page::parse(class.manual);
    let mut text = format!("{}\n\n    {}\n", class.name, page.summary);
    if !class.aliases.is_empty() {
        let _ = writeln!(text, "    Also called {}.", class.aliases.join(", "));
    }
    if !page.description.is_empty() {
        let _ = write!(text, "\n{}", indent(&page.description));
    }
    let _ = write!(text, "\nUsage\n{}", indent(&page.section("Usage").unwrap_or_default().replace('`', "")));
    let _ = writeln!(text, "\nPorts\n    {} (processing {})", class.ports, class.processing);
    if !class.args.is_empty() {
        text.push_str("\nArguments\n");
        let items = page.items("Arguments");
        for arg in class.args {
            let about = items.iter().find(|(name, _)| name == arg.name).map_or("", |(_, about)| about);
            let kind = match arg.kind {
                ArgKind::Required => ", required".to_string(),
                _ => default_in_words(arg.default),
            };
            let _ = writeln!(text, "    {} ({}{kind})\n{}", arg.name, arg.ty, item(about));
        }
    }
    if class.each_handler().next().is_some() {
        text.push_str("\nHandlers\n");
        let items = page.items("Handlers");
        for handler in class.each_handler() {
            let about = items.iter().find(|(name, _)| name == handler.name).map_or("", |(_, about)| about);
            let access = match handler.access {
                Access { read: true, write: true, .. } => "read, write",
                Access { read: true, param: true, .. } => "read with parameter",
                Access { read: true, .. } => "read",
                _ => "write",
            };
            let _ = writeln!(text, "    {} ({access})\n{}", handler.name, item(about));
        }
    }
    if !class.state.is_empty() {
        let state = element::reload::describe(class);
        let _ = write!(text, "\nState on a reload\n{}", indent(&state.replace('`', "")));
    }
    for (title, body) in &page.sections {
        if !["Usage", "Arguments", "Handlers"].contains(&title.as_str()) {
            let body: String =
                body.lines().filter(|l| !l.starts_with("```")).map(|l| format!("{l}\n")).collect();
            let _ = write!(text, "\n{title}\n{}", indent(&body));
        }
    }
    text
}

/// Returns the end of an argument's heading: the default. Empty for an argument without a default.
fn default_in_words(default: DefaultValue) -> String {
    match default {
        DefaultValue::None => String::new(),
        DefaultValue::Text(text) | DefaultValue::Computed(text) => format!(", default {text}"),
        DefaultValue::Burst(clicks) => format!(
            ", default {BURST} under `tidegate run`, or its `--burst`; {clicks} under `tidegate click`"
        ),
    }
}

/// Returns the text about an argument or handler, in lines that are indented below its heading. A line has
/// at most [`WIDTH`] characters, unless a word is longer.
fn item(about: &str) -> String {
    let mut text = String::new();
    let mut width = WIDTH;
    for word in about.split_whitespace() {
        width += 1 + word.chars().count();
        if width > WIDTH {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(INDENT);
            width = INDENT.len() + word.chars().count();
        } else {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// The indentation of texts about arguments and handlers.
const INDENT: &str = "        ";
/// The maximum number of characters in a line of a text about an argument or handler.
const WIDTH: usize = 110;

fn indent(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("    {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_items_are_wrapped() {
        assert_eq!(item(""), "");
        assert_eq!(item("short"), "        short");
        let wrapped = item(&"word ".repeat(60));
        assert!(wrapped.lines().all(|line| line.starts_with("        word") && line.len() <= WIDTH));
        assert_eq!(wrapped.split_whitespace().count(), 60);
        assert_eq!(wrapped.lines().count(), 3);
    }
}
