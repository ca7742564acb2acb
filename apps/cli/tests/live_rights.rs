//! Interfaces without root: the capabilities that docs/devices.md lists are sufficient, and each of them is
//! necessary. Skipped with a message if network namespaces cannot be created.

mod line;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lab::Namespace;
use line::{Line, TIDEGATE};

/// Returns the capabilities that docs/devices.md lists in its table for each element.
fn listed() -> BTreeMap<String, Vec<String>> {
    let text = include_str!("../../../docs/devices.md");
    let mut rights = BTreeMap::new();
    for line in text.lines().skip_while(|line| !line.starts_with("| elements | capabilities")).skip(2) {
        let [_, elements, capabilities, _] = line.split('|').collect::<Vec<_>>()[..] else { break };
        let names =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_string).collect() };
        rights.extend(names(elements).into_iter().map(|element| (element, names(capabilities))));
    }
    rights
}

/// Runs a configuration with the element as an unprivileged user that has only these capabilities. If the run
/// fails, the error is its messages.
fn start(space: &Namespace, program: &Path, element: &str, capabilities: &[String]) -> Result<(), String> {
    let config = match element {
        "FromDevice" | "FromXDP" => format!("{element}(left, PROMISC true) -> Discard"),
        "ToDevice" => "Idle -> Queue -> ToDevice(left)".to_string(),
        "ToXDP" => "Idle -> ToXDP(left)".to_string(),
        "FromHost" => "FromHost(fake0, 10.7.0.1/24) -> Discard".to_string(),
        "ToHost" => "FromHost(fake0, 10.7.0.1/24) -> Discard; Idle -> ToHost(fake0)".to_string(),
        _ => format!("Idle -> {element}(10.9.0.1/24) -> Discard"),
    };
    let config = format!("{config}; Script(write stop)");
    let all: Vec<_> = capabilities
        .iter()
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let rights = if all.is_empty() { "-all".to_string() } else { all.join(",") };
    let output = space
        .command("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args([
            format!("--bounding-set=-all,{rights}"),
            format!("--inh-caps=-all,{rights}"),
            format!("--ambient-caps=-all,{rights}"),
        ])
        .arg(program)
        .args(["run", "-q", "--memory", "64M", "-e", &config])
        .current_dir("/")
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn the_listed_capabilities_are_enough_and_needed() {
    let Some(line) = Line::new() else { return };
    // An unprivileged user may not be able to read the build folder.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("tidegate");
    std::fs::copy(TIDEGATE, &program).unwrap();
    let rights = listed();
    assert_eq!(rights.len(), 8, "{rights:?}");
    for (element, capabilities) in rights {
        if element.contains("XDP") && !line::has_xdp(&line) {
            continue;
        }
        start(&line.between, &program, &element, &capabilities)
            .unwrap_or_else(|why| panic!("{element}: {why}"));
        for left_out in &capabilities {
            let fewer: Vec<String> = capabilities.iter().filter(|name| *name != left_out).cloned().collect();
            let why = start(&line.between, &program, &element, &fewer);
            let names = |why: String| why.contains(left_out);
            assert!(why.clone().is_err_and(names), "{element} without {left_out}: {why:?}");
        }
    }
}
