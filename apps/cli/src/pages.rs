//! `tidegate completions` and `tidegate man-pages`: what a package installs beside the program, made from the
//! same data as the help.

use std::fs;
use std::path::PathBuf;

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::print;
use crate::status::{SUCCESS, Status};

/// The arguments of `completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: ShellName,
}

/// A shell whose completions can be printed.
#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Fish,
    Zsh,
}

/// The arguments of `man-pages`.
#[derive(clap::Args)]
pub(crate) struct PageArgs {
    /// The folder to write the pages into; it is created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionArgs, mut command: Command) -> Status {
    let shell = match args.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Fish => Shell::Fish,
        ShellName::Zsh => Shell::Zsh,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "tidegate", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes a page for the program and one for each command, in section 1 of the manual.
pub(crate) fn man_pages(args: &PageArgs, command: Command) -> Status {
    let folder = &args.folder;
    let failed = |error: std::io::Error| format!("{}: {}", folder.display(), crate::reason(&error));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    for page in command.get_subcommands().chain([&command]) {
        let name = match page.get_name() {
            own if own == command.get_name() => own.to_string(),
            sub => format!("{}-{sub}", command.get_name()),
        };
        let file = folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        Man::new(page.clone()).title(name).render(&mut text).map_err(failed)?;
        fs::write(&file, text).map_err(|error| format!("{}: {}", file.display(), crate::reason(&error)))?;
    }
    Ok(SUCCESS)
}
