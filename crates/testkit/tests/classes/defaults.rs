//! Tests that the default that a class declares for an argument is the value that its elements use.

use element::class::{ArgInfo, ArgKind, DefaultValue};
use element::manual::Page;
use element::{Class, Sample as Way};
use tempfile::TempDir;
use testkit::samples::{ClassSample, all};
use testkit::{TestRun, classes, generic, registry, worker};

/// Returns the declared default as a user would write it, in runs with this burst.
fn written(arg: &ArgInfo, burst: Option<usize>) -> Option<String> {
    match arg.default {
        DefaultValue::None | DefaultValue::Computed(_) => None,
        DefaultValue::Text(text) => Some(text.into()),
        DefaultValue::Burst(clicks) => Some(burst.map_or(clicks.into(), |burst| burst.to_string())),
    }
}

/// True if a configuration has a value for the argument, by name or by position.
fn has(class: &Class, config: &str, name: &str) -> bool {
    let given = lang::args::split(config);
    let keyword = |text: &str| {
        text.trim().split_once(char::is_whitespace).map(|(word, _)| word).and_then(|word| class.arg(word))
    };
    let by_position = given.iter().filter(|arg| keyword(&arg.text).is_none()).count();
    let mut places =
        class.args.iter().filter(|arg| matches!(arg.kind, ArgKind::Required | ArgKind::Positional));
    given.iter().any(|arg| keyword(&arg.text).is_some_and(|arg| arg.name == name))
        || places.position(|arg| arg.name == name).is_some_and(|place| place < by_position)
}

/// The declaration of an element, and its read handlers with their values.
type Look = (String, Vec<(&'static str, String)>);

/// Returns what can be seen of the element of a sample.
fn look(sample: &ClassSample, run: TestRun) -> Result<Look, String> {
    let mut worker = worker(&sample.text(0, 1, false), run)?;
    let id = worker.plan().graph.find("e").ok_or("no element")?;
    let effects = format!("{:?}", worker.effects()[id]);
    let handlers = sample.class.each_handler().filter(|handler| handler.access.read && !handler.access.param);
    let values = handlers.map(|handler| {
        let value = worker.read(Some(id), handler.name, "");
        (handler.name, value.unwrap_or_else(|error| error))
    });
    Ok((effects, values.collect()))
}

/// Compares the element of a sample, in which the argument `name` is not given, with an element to which its
/// default is given. Some handlers show the argument as it was configured, and nothing without it, as in
/// Click.
fn compare(sample: &ClassSample, name: &str, default: &str, run: TestRun) -> Result<Option<String>, String> {
    let with = match sample.config.trim() {
        "" => format!("{name} {default}"),
        config => format!("{config}, {name} {default}"),
    };
    let told = ClassSample::new(Way { config: with, ..(**sample).clone() });
    let (one, again, other) = (look(sample, run)?, look(sample, run)?, look(&told, run)?);
    if one.0 != other.0 {
        return Ok(Some(format!("declares {}\nwith the default written out {}", one.0, other.0)));
    }
    for ((one, again), other) in one.1.iter().zip(&again.1).zip(&other.1) {
        let is_shown_if_given = one.1.is_empty() && other.1 == default;
        // Handlers whose values differ between two equal elements, such as the number of a port, are not
        // compared.
        if one == again && one != other && !is_shown_if_given {
            let (name, one, other) = (one.0, &one.1, &other.1);
            return Ok(Some(format!("{name} is {one:?}, with the default written out {other:?}")));
        }
    }
    Ok(None)
}

/// An argument with a declared default makes no difference if the default is written out, in the first sample
/// of the class that can be configured so. Samples in which the argument excludes another argument are
/// skipped.
#[test]
fn a_default_that_is_written_out_changes_nothing() {
    let folder = TempDir::new().unwrap();
    generic::prepare(folder.path()).unwrap();
    let mut faults = Vec::new();
    let mut compared = 0;
    for class in classes() {
        let samples = all(&[class], folder.path());
        for burst in [None, Some(32)] {
            let run = TestRun { burst, ..TestRun::default() };
            for arg in class.args {
                let Some(default) = written(arg, burst) else { continue };
                let free = samples.iter().filter(|sample| !has(class, &sample.config, arg.name));
                let mut results = free.map(|sample| (sample, compare(sample, arg.name, &default, run)));
                let mut last = None;
                let decided = results.find_map(|(sample, result)| match result {
                    Ok(fault) => Some(fault.map(|fault| format!("{sample}: {}: {fault}", arg.name))),
                    Err(error) => {
                        last = Some(format!("{sample}: {}: {error}", arg.name));
                        None
                    }
                });
                compared += usize::from(decided.is_some());
                faults.extend(decided.unwrap_or(last));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(compared > 700, "only {compared} comparisons");
}

/// The first example of each class without samples can be configured with the default of each argument
/// written out, and declares the same then. Most elements of devices have no samples, because samples are
/// run.
#[test]
fn examples_can_have_defaults_written_out() {
    let declared = |text: &str, name: &str| -> Result<String, String> {
        let mut sources = lang::Sources::new();
        let id = sources.add(name, text);
        let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
        let text = |problems: Vec<engine::Problem>| problems[0].render(&sources);
        if let Some(diagnostic) = diagnostics.first() {
            return Err(diagnostic.render(&sources));
        }
        let plan = engine::Plan::new(graph, &registry()).map_err(text)?;
        plan.configure(None).map(|all| format!("{:?}", all.effects)).map_err(text)
    };
    let mut faults = Vec::new();
    for class in classes().filter(|class| class.samples.is_empty()) {
        let example = Page::parse(class.manual).code("Example").remove(0);
        let (start, opening) = (example.find(class.name).unwrap(), format!("{}(", class.name));
        let Some(inside) = example[start..].strip_prefix(&opening) else { continue };
        let (config, rest) = inside.split_once(')').unwrap();
        let before = declared(&example, class.name).unwrap();
        for arg in class.args.iter().filter(|arg| !has(class, config, arg.name)) {
            let Some(default) = written(arg, None) else { continue };
            let told = format!("{}{opening}{config}, {} {default}){rest}", &example[..start], arg.name);
            match declared(&told, class.name) {
                Ok(after) if after == before => {}
                Ok(_) => faults.push(format!("{} {} {default}: other effects", class.name, arg.name)),
                Err(error) => faults.push(format!("{} {} {default}: {error}", class.name, arg.name)),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Classes whose burst follows the run declare Click's default for runs that set no burst.
#[test]
fn the_burst_of_the_run_is_declared() {
    let bursts = [
        ("Unqueue", "1"),
        ("InfiniteSource", "1"),
        ("Discard", "1"),
        ("ToDump", "1"),
        ("ToDevice", "1"),
        ("KernelTun", "1"),
        ("ReplayUnqueue", "64"),
    ];
    for (name, clicks) in bursts {
        let class = classes().find(|class| class.name == name).unwrap();
        assert_eq!(class.arg("BURST").unwrap().default, DefaultValue::Burst(clicks), "{name}");
    }
}

/// The manual shows the declared default beside each argument, so the text need not repeat it.
#[test]
fn manuals_leave_defaults_to_the_declaration() {
    for class in classes() {
        for (name, text) in Page::parse(class.manual).items("Arguments") {
            let Some(arg) = class.arg(&name) else { continue };
            let is_declared = matches!(arg.default, DefaultValue::Text(_) | DefaultValue::Burst(_));
            assert!(!is_declared || !text.contains("default"), "{} {name}: {text}", class.name);
        }
    }
}
