//! Checks the statements of documents: dependencies are listed, commands work, and no path of a developer's
//! machine is named.

mod repository;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use repository::{external, files, manifests, read, root};

/// Returns the rows of the table in DEPENDENCIES.md: name, version requirement, users, reason.
fn listed() -> Vec<[String; 4]> {
    let text = read("DEPENDENCIES.md");
    let accepted = text.split("## Refused").next().unwrap_or_default();
    let table = accepted.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        <[String; 4]>::try_from(cells).unwrap_or_else(|_| panic!("not four cells: {line}"))
    };
    table.map(cells).collect()
}

#[test]
fn every_dependency_is_listed_with_its_reason() {
    let (external, listed) = (external(), listed());
    let mut failures = Vec::new();
    let mut used = BTreeSet::new();
    for manifest in manifests() {
        for (name, _) in &manifest.dependencies {
            let Some((_, version)) = external.iter().find(|(known, _)| known == name) else { continue };
            used.insert(name.clone());
            let line = listed.iter().find(|[listed, ..]| listed == name);
            match line {
                None => failures.push(format!("{name} is not listed")),
                Some([_, stated, users, reason]) => {
                    if stated != version {
                        failures.push(format!("{name} is listed with {stated}, required is {version}"));
                    }
                    if !users.split(", ").any(|user| user == manifest.short) {
                        failures.push(format!("{name} is also used by {}", manifest.short));
                    }
                    if reason.len() < 20 {
                        failures.push(format!("{name} has no reason"));
                    }
                }
            }
        }
    }
    for [name, _, users, _] in &listed {
        if !used.contains(name) {
            failures.push(format!("{name} is listed, but nobody uses it"));
        }
        for user in users.split(", ") {
            let uses =
                |m: &repository::Manifest| m.short == user && m.dependencies.iter().any(|(d, _)| d == name);
            if !manifests().iter().any(uses) {
                failures.push(format!("{name} is not used by {user}"));
            }
        }
    }
    assert!(failures.is_empty(), "DEPENDENCIES.md:\n{}", failures.join("\n"));
}

/// True if a line has an absolute path that begins with one of three folders in which a developer's machine
/// has files of its own.
fn names_machine_path(line: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || "._-$}".contains(c);
    // The paths are written in two parts, so that the test does not find them here.
    [concat!("/wo", "rk"), concat!("/ro", "ot"), concat!("/ho", "me")].iter().any(|path| {
        line.match_indices(path).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + path.len()..]);
            !before.ends_with(part_of_word) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    let (wrong, right) = (concat!("see /wo", "rk/notes"), "crates/work, a/root, /workers");
    assert!(names_machine_path(wrong) && !names_machine_path(right));
    let mut failures = Vec::new();
    for file in files() {
        for (number, line) in read(&file).lines().enumerate() {
            if names_machine_path(line) {
                failures.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the files of the repository that a document names: in backquotes with the whole path, or as the
/// target of a link.
fn named_files(document: &str, text: &str) -> Vec<String> {
    let folders = ["crates/", "mechanisms/", "apps/", "bench/", "docs/", "configs/", "examples/", "fuzz/"];
    let quoted = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| folders.iter().any(|folder| name.starts_with(folder)));
    let is_placeholder = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
    let is_path = |name: &&str| {
        !name.contains(|c: char| c.is_whitespace() || "*<{$".contains(c))
            && !name.split('/').any(is_placeholder)
    };
    let mut named: Vec<String> = quoted.filter(is_path).map(String::from).collect();
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let links = text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split([')', '#']).next());
    for link in links.filter(|link| !link.is_empty() && !link.contains("://") && is_path(link)) {
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in link.split('/') {
            match part {
                ".." => {
                    parts.pop();
                }
                _ => parts.push(part),
            }
        }
        named.push(parts.join("/"));
    }
    named
}

#[test]
fn files_that_documents_name_are_there() {
    assert_eq!(
        named_files("docs/a.md", "`crates/x/src` and [a](../b.md#c), [d](e.svg), `cargo x`, `crates/*`"),
        ["crates/x/src", "b.md", "docs/e.svg"]
    );
    let mut failures = Vec::new();
    for document in files().iter().filter(|file| file.ends_with(".md")) {
        let named = named_files(document, &read(document));
        let missing = named.into_iter().filter(|name| !root().join(name).exists());
        failures.extend(missing.map(|name| format!("{document}: there is no {name}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the commands in documents and examples that users type, each with the name of the file: all lines
/// of .md, .click and .prop files that begin with `cargo `, `./` or `sudo `, apart from comment signs and
/// white space before the command. A comment after the command, from ` #` on, is cut off.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    let may_have = |file: &&String| [".md", ".click", ".prop"].iter().any(|end| file.ends_with(end));
    for file in files().iter().filter(may_have) {
        for line in read(file).lines() {
            let line = line.trim_start_matches("//").trim_start_matches('#').trim();
            let command = line.split(" #").next().unwrap_or_default().trim();
            if ["cargo ", "./", "sudo "].iter().any(|start| command.starts_with(start)) {
                commands.push((file.clone(), command.to_string()));
            }
        }
    }
    assert!(commands.len() > 10, "commands were not found");
    commands
}

/// Returns the words of a command as a shell splits them; single quotes keep a word together.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().map(String::from).collect(),
        _ => vec![part.to_string()],
    });
    words.collect()
}

/// Makes a folder in which examples find their captures and write their files.
fn playground() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("configs"), folder.path().join("configs")).unwrap();
    folder
}

fn tidegate(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let output = Command::new(binary).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("tidegate {}: {}", arguments.join(" "), text(&output.stderr))),
    }
}

#[test]
fn every_command_in_a_document_works() {
    let folder = playground();
    let script = read("ci.sh");
    let mut failures = Vec::new();
    let listed = tidegate(folder.path(), &["bench", "list"]).unwrap();
    let benchmarks: BTreeSet<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let runs_all = |(_, command): &(String, String)| command.contains("-- bench --");
    assert!(commands().iter().any(runs_all), "no command runs all benchmarks");
    let mut seen = BTreeSet::new();
    for (file, command) in commands() {
        if !seen.insert(command.clone()) {
            continue;
        }
        let result = if let Some(arguments) = command.strip_prefix("cargo run --release -- ") {
            let arguments = words(arguments);
            let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            // `--full` is left out, because a benchmark with it takes minutes.
            arguments.retain(|argument| *argument != "--full");
            match arguments[..] {
                ["bench", "list"] => {}
                // A `bench` command with names of benchmarks is not run, and only the names are checked,
                // because all benchmarks are run anyway: some for the command without names, the others by
                // the tests of their crate.
                ["bench", ref names @ ..] if names.iter().all(|name| !name.starts_with('-')) => {
                    let unknown = names.iter().filter(|name| !benchmarks.contains(**name));
                    failures.extend(unknown.map(|name| format!("{file}: there is no benchmark {name}")));
                    continue;
                }
                ["bench", ..] => arguments.extend(["--small"].into_iter().chain(bench::OF_PROGRAM)),
                ["evaluate", _, ..] => arguments.push("--small"),
                ["synthesize", ..] if !arguments.contains(&"--seconds") => {
                    arguments.extend(["--seconds", "5"])
                }
                _ => {}
            }
            tidegate(folder.path(), &arguments).map(|_| ())
        } else if let Some(program) = command.strip_prefix("./").or(command.strip_prefix("sudo ")) {
            let program = program.split_whitespace().next().unwrap_or_default();
            let is_file = root().join(program).is_file();
            is_file.then_some(()).ok_or_else(|| format!("there is no {program}"))
        } else if command.contains("--manifest-path") {
            // The command builds a copy of the example. bench/nightly builds it, and another test checks that
            // it can be built.
            Ok(())
        } else {
            // CI runs programs that are not optimised.
            let in_script = script.contains(&command) || script.contains(&command.replace(" --release", ""));
            in_script.then_some(()).ok_or_else(|| format!("ci.sh does not run '{command}'"))
        };
        if let Err(reason) = result {
            failures.push(format!("{file}: {reason}"));
        }
    }
    failures.extend(
        untracked(folder.path()).map(|name| format!("{name} is left, and .gitignore does not list it")),
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the files that commands have left in a folder, and that git would list as new files in the
/// repository.
fn untracked(folder: &Path) -> impl Iterator<Item = String> {
    let left = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = left.map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() { name + "/" } else { name }
    });
    names.filter(|name| {
        let mut git = Command::new("git");
        let ignored =
            git.args(["check-ignore", "--quiet", "--no-index", name]).current_dir(root()).status().unwrap();
        name != "configs/" && !ignored.success()
    })
}

/// A copy of the example outside of the repository has the manifest entries for all dependencies.
#[test]
fn the_example_can_be_copied() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = read("examples/own-nf/Cargo.toml").replace("../..", &root().display().to_string());
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    for file in ["main.rs", "lib.rs"] {
        std::fs::copy(root().join("examples/own-nf/src").join(file), folder.path().join("src").join(file))
            .unwrap();
    }
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--depth", "1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_example_runs_and_accounts_for_every_packet() {
    let folder_of = |file: &str| Path::new(file).parent().map(Path::to_path_buf);
    let chains: Vec<_> =
        files().iter().filter(|file| file.ends_with(".prop")).map(|file| folder_of(file)).collect();
    let mut examples = 0;
    for file in files() {
        if !(file.starts_with("configs/") && file.ends_with(".click")) {
            continue;
        }
        // A file in the folder of a chain is the configuration of one network function, with interfaces, so
        // it is checked but not run.
        if chains.contains(&folder_of(&file)) {
            tidegate(&root(), &["check", &file]).unwrap();
            continue;
        }
        examples += 1;
        tidegate(playground().path(), &["check", &file]).unwrap();
        for clock in ["trace", "real"] {
            let folder = playground();
            let json = folder.path().join("report.json");
            let json = json.to_str().unwrap();
            tidegate(folder.path(), &["run", &file, "--clock", clock, "--json", json]).unwrap();
            let report: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
            let number = |name: &str| report["totals"][name].as_u64().unwrap();
            assert!(number("in") > 100, "{file} saw {} packets", number("in"));
            assert_eq!(number("in"), number("out") + number("held") + number("dropped"), "{file}");
        }
    }
    assert!(examples >= 6, "there are only {examples} examples");
}

#[test]
fn the_main_job_gives_the_same_bytes_on_every_run() {
    let run = |delay: &str| {
        let folder = playground();
        let arguments = ["run", "configs/quickstart.click", "--clock", "trace", delay];
        let text = tidegate(folder.path(), &arguments).unwrap();
        let report = tidegate(folder.path(), &["analyze", "quickstart-out.pcap", "--json"]).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let capture = std::fs::read(folder.path().join("quickstart-out.pcap")).unwrap();
        (text, capture, report["slf"].as_f64().unwrap())
    };
    let (text, capture, slf) = run("DELAY=64us");
    assert_eq!((&text, &capture, slf), (&run("DELAY=64us").0, &run("DELAY=64us").1, slf));
    assert!(text.contains("TCP 129,"), "{text}");
    for line in ["as they came           1.232\n", "after the reframer     2.906\n", "<65536ns 136\n"] {
        assert!(text.contains(line), "{text}");
    }
    // The written capture has a higher SLF with the delay of 64 us than without a delay.
    let without = run("DELAY=0").2;
    assert!(without < 1.3 && slf > 2.5, "{without} became {slf}");
    // Of 191 packets, 165 are written; the others are ARP, IPv6 or have an expired time to live.
    assert!(text.contains("written 165\n"), "{text}");
    assert_eq!(u32::from_le_bytes(capture[16..20].try_into().unwrap()), 262_144, "the snap length");
}

/// The picture `docs/synthesizer.svg` matches the picture that the program draws; `BLESS=1` writes it again.
#[test]
fn pictures_in_documents_are_as_drawn() {
    let path = root().join("docs/synthesizer.svg");
    let arguments = ["synthesize", "configs/motivating/motivating.prop", "--all", "--emit", "svg"];
    let drawn = tidegate(&root(), &arguments).unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == drawn, "docs/synthesizer.svg: BLESS=1 draws it anew");
}

/// A terminal session in a document matches the program's output: blocks with `$ tidegate ...` and, if
/// there is any, the output.
#[test]
fn sessions_in_documents_are_as_shown() {
    let folder = playground();
    let mut sessions = 0;
    for file in files().iter().filter(|file| file.ends_with(".md")) {
        let text = read(file);
        for block in text.split("```console\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            let (command, shown) = block.split_once('\n').unwrap();
            let arguments: Vec<&str> =
                command.strip_prefix("$ tidegate ").expect(command).split_whitespace().collect();
            let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
                .args(&arguments)
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.trim() == shown.trim() || shown.is_empty(), "{file}: {command}\n{said}");
            sessions += 1;
        }
    }
    assert!(sessions > 2, "sessions were not found");
}
