//! Writes the seeds of a fuzz target into a folder: `seeds TARGET FOLDER`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, folder] = &arguments[..] else {
        eprintln!("usage: seeds TARGET FOLDER");
        return ExitCode::from(2);
    };
    for (number, seed) in fuzz::seeds::of(target).iter().enumerate() {
        let file = Path::new(folder).join(format!("seed-{number:03}"));
        if let Err(error) = std::fs::write(&file, seed) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
