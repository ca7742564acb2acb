//! `tidegate completions` and `tidegate man-pages`: what a package installs beside the program.

use std::process::{Command, Output};

fn tidegate(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the names of all commands, as the help lists them.
fn commands() -> Vec<String> {
    let help = String::from_utf8(tidegate(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(String::from));
    names.filter(|name| !name.is_empty() && name != "help").collect()
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "fish", "zsh"] {
        let text = String::from_utf8(tidegate(&["completions", shell]).stdout).unwrap();
        for command in commands() {
            assert!(text.contains(&command), "{shell}: {command}");
        }
        assert!(text.contains("steering"), "{shell}");
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    tidegate(&["man-pages", &pages.display().to_string()]);
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for name in commands.iter().map(|name| format!("tidegate-{name}")).chain(["tidegate".into()]) {
        let text = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(text.contains(&format!(".TH {name} 1")), "{name}: {}", &text[..200.min(text.len())]);
        assert!(text.contains(".SH SYNOPSIS"), "{name}");
    }
}
