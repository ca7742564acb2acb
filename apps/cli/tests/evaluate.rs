//! `tidegate evaluate`: figures are measured, their results are kept in a folder, and figures with results
//! are not measured again.

use std::path::Path;
use std::process::{Command, Output};

/// Figures that are measured between network namespaces and need no software other than Open vSwitch, nginx
/// and wrk.
const LIVE: [&str; 9] = [
    "juggler-1",
    "juggler-14",
    "juggler-18",
    "juggler-20",
    "juggler-latency",
    "reframer-1",
    "reframer-3",
    "reframer-19",
    "snf-11",
];

/// Figures that take almost no time to measure.
const QUICK: [&str; 4] = ["snf-motivating", "snf-7", "reframer-11", "reframer-18"];

fn evaluate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["evaluate", "--small", "--into"])
        .arg(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn figures_have_tables_plots_and_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let output = evaluate(folder.path(), &QUICK);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = std::fs::read_to_string(folder.path().join("evaluation.md")).unwrap();
    for name in QUICK {
        let file = |extension: &str| {
            std::fs::read_to_string(folder.path().join(format!("{name}.{extension}"))).unwrap()
        };
        let csv = file("csv");
        let columns = csv.lines().next().unwrap().split(',').count();
        assert!(columns >= 4 && csv.lines().count() >= 3, "{csv}");
        assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
        assert!(file("svg").starts_with("<svg"));
        assert!(report.contains(&format!("({name}.svg)")) && report.contains("**The paper:**"), "{report}");
    }
    // The report lists figures that have not been measured yet, and says that figures measured with `--small`
    // mean nothing.
    assert!(report.contains("(`snf-8`): not run yet") && report.contains("mean nothing"), "{report}");
    let cost = std::fs::read_to_string(folder.path().join("snf-7.csv")).unwrap();
    assert!(cost.starts_with("burst,chain,flows,form,functions,ns_per_packet,floor_ns,ratio,"), "{cost}");

    // The same program measures a figure only once, unless `--again` is given.
    let again = evaluate(folder.path(), &["snf-motivating"]);
    assert!(text(&again.stderr).contains("snf-motivating: is in the folder"), "{}", text(&again.stderr));
    let plot = folder.path().join("snf-motivating.svg");
    std::fs::remove_file(&plot).unwrap();
    assert!(evaluate(folder.path(), &["snf-motivating", "--again"]).status.success());
    assert!(plot.exists());
}

/// Measures figures between network namespaces; `bench/nightly` runs it.
#[test]
#[ignore = "takes minutes"]
fn figures_between_machines_have_figures() {
    let folder = tempfile::tempdir().unwrap();
    let output = evaluate(folder.path(), &LIVE);
    let report = std::fs::read_to_string(folder.path().join("evaluation.md")).unwrap();
    for name in LIVE {
        if report.contains(&format!("(`{name}`): needs")) {
            println!("skipped: {name} needs what is not here");
            continue;
        }
        let csv = std::fs::read_to_string(folder.path().join(format!("{name}.csv")));
        let csv = csv.unwrap_or_else(|error| panic!("{name}: {error}: {}", text(&output.stderr)));
        // On a busy machine, only the table of snf-11, which needs thousands of OpenFlow rules, may lack
        // values.
        let is_whole = csv.lines().all(|line| !line.contains(",,")) || name == "snf-11";
        assert!(csv.lines().count() >= 3 && is_whole, "{name}: {csv} {}", text(&output.stderr));
    }
}

#[test]
fn an_evaluation_that_is_interrupted_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["evaluate", "--small", "--into"])
        .arg(folder.path())
        .args(["snf-motivating", "reframer-4", "reframer-18"])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The interrupt comes when the results of the first figure are in the folder and the second figure is
    // being measured.
    let first = folder.path().join("snf-motivating.json");
    while !first.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let report = std::fs::read_to_string(folder.path().join("evaluation.md")).unwrap();
    assert!(!output.status.success() && report.contains("(`reframer-18`): interrupted"), "{report}");
    let again = evaluate(folder.path(), &["snf-motivating", "reframer-18"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let said = text(&again.stderr);
    assert!(
        said.contains("snf-motivating: is in the folder") && !said.contains("reframer-18: is in"),
        "{said}"
    );
}

#[test]
fn figures_are_listed_with_those_that_cannot_be_had() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("evaluate").output().unwrap();
    let list = text(&output.stdout);
    assert!(list.contains("snf-7 ") && list.contains("Reframer, Figures 17 and 21: not there"), "{list}");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["evaluate", "snf-99"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no figure 'snf-99'"));
}
