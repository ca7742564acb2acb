//! Tests of configurations as text files: a configuration, input packets, and what comes of them.
//!
//! ```text
//! A queue of two packets drops the third.
//! -- config
//! SOURCE -> q :: Queue(2) -> Unqueue(ACTIVE false) -> SINK0; q[1] -> SINK1
//! -- packets
//! 01
//! 02
//! 03 00*4
//! -- handlers
//! q.length: 2
//! -- out
//! 1: 03000000 00
//! -- messages
//! q :: Queue: overflow
//! -- counters
//! q: in 3, out 1, held 0, stop 2
//! ```
//!
//! The text before the first section says what is tested. The sections of input are:
//! - `config`: the configuration. `SOURCE` pushes the packets, and `SINK0` to `SINK7` record packets.
//!   `SOURCE1` to `SOURCE7` are more sources.
//! - `packets`: a packet per line in hexadecimal. Words are separated by spaces, and `*N` at the end of a
//!   word repeats its bytes N times. A line that begins with `1:` is for `SOURCE1`. The packets have the
//!   times 1 s, 2 s and so on; `@2.5` at the end of a line gives a packet another time.
//! - `run`: settings, a line each. `trace` is the trace clock instead of simulated time, and `burst 32` gives
//!   all sources a burst, where the default is the burst of Click.
//!
//! The sections of results are:
//! - `handlers`: handlers, each with the value that it has at the end of the run. Values of several lines
//!   follow in lines of their own, after two spaces.
//! - `out`: the packets that the sinks recorded, each with the number of its sink. The time of a packet
//!   follows if the section is named `out with times`.
//! - `messages`: the text that elements wrote, messages first
//! - `counters`: the packets in, out, held and dropped of each element
//! - `errors`: the errors of a configuration that is refused
//!
//! A file without the section `counters` does not test counters. A file without `out` or `messages` expects
//! no packets or no text. `BLESS=1 cargo test` writes the results into the files; a new file then needs only
//! its input, and the names of handlers.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use element::Timestamp;

use crate::TestRun;
use crate::elements::{TestPacket, collect, offer};

/// The number of sources, and of sinks, that a configuration can have.
const ENDS: usize = 8;

/// The names of all sections, in the order in which they are written.
const SECTIONS: [&str; 9] =
    ["run", "config", "packets", "handlers", "out", "out with times", "messages", "counters", "errors"];

/// A section of a file. It begins with a line such as `-- name` or `-- name: title`.
pub struct Section<'t> {
    /// The name, without the title.
    pub name: &'t str,
    /// The number of the line with the name; the first line of the file has the number 1.
    pub line: usize,
    /// The lines after the name.
    pub body: String,
}

/// Returns the text before the first section of a file, and the sections.
pub fn sections(text: &str) -> (String, Vec<Section<'_>>) {
    let (mut title, mut sections) = (String::new(), Vec::<Section>::new());
    for (index, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("--") {
            let name = heading.split_once(':').map_or(heading, |(name, _)| name).trim();
            sections.push(Section { name, line: index + 1, body: String::new() });
        } else {
            let body = sections.last_mut().map_or(&mut title, |section| &mut section.body);
            *body += line;
            body.push('\n');
        }
    }
    (title, sections)
}

/// A mistake in a file: the number of the line, and what is wrong there.
type Mistake = (usize, String);

/// A file that has been read: its text before the sections, and its sections.
struct Case<'t> {
    title: String,
    sections: Vec<Section<'t>>,
}

impl<'t> Case<'t> {
    fn read(text: &'t str) -> Result<Case<'t>, Mistake> {
        let (title, sections) = sections(text);
        let mut case = Case { title, sections: Vec::new() };
        for section in sections {
            let Section { name, line, .. } = section;
            if !SECTIONS.contains(&name) {
                return Err((line, format!("no section is named '{name}'; use {}", SECTIONS.join(", "))));
            }
            if case.section(name).is_some() {
                return Err((line, format!("the section '{name}' is here for the second time")));
            }
            case.sections.push(section);
        }
        match case.section("config") {
            Some(_) => Ok(case),
            None => Err((1, "the file has no section '-- config'".into())),
        }
    }

    fn section(&self, name: &str) -> Option<&Section<'t>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns the lines of a section that are not empty, each with its number.
    fn lines(&self, name: &str) -> impl Iterator<Item = (usize, &str)> {
        let section = self.section(name);
        let lines =
            section.into_iter().flat_map(|s| s.body.lines().enumerate().map(|(i, l)| (s.line + 1 + i, l)));
        lines.filter(|(_, line)| !line.trim().is_empty())
    }

    fn settings(&self) -> Result<TestRun, Mistake> {
        let mut run = TestRun { burst: None, ..TestRun::default() };
        for (number, line) in self.lines("run") {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["trace"] => run.clock = TestRun::trace().clock,
                ["burst", burst] if burst.parse::<usize>().is_ok() => run.burst = burst.parse().ok(),
                _ => return Err((number, format!("'{line}' is no setting; use 'trace' or 'burst 32'"))),
            }
        }
        Ok(run)
    }

    /// Returns the packets of each source.
    fn inputs(&self) -> Result<Vec<Vec<TestPacket>>, Mistake> {
        let mut inputs = vec![Vec::new(); ENDS];
        for (index, (number, line)) in self.lines("packets").enumerate() {
            let (source, rest) = line.split_once(':').unwrap_or(("0", line));
            let (hex, time) = rest.split_once('@').unwrap_or((rest, ""));
            let source = source.trim().parse::<usize>().ok().filter(|source| *source < ENDS);
            let Some(source) = source else {
                return Err((number, "the number of a source, 0 to 7, stands before ':'".into()));
            };
            let time = match time.trim() {
                "" => Timestamp::from_secs(index as i64 + 1),
                text => match text.parse() {
                    Ok(seconds) => Timestamp::from_secs_f64(seconds),
                    Err(_) => return Err((number, format!("'{text}' is no time in seconds"))),
                },
            };
            let bytes = bytes(hex).map_err(|wrong| (number, wrong))?;
            inputs[source].push(TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] });
        }
        Ok(inputs)
    }

    /// Returns the names of the handlers that the section `handlers` lists; the handlers are read at the end
    /// of the run.
    fn handlers(&self) -> Vec<&str> {
        let names = self.lines("handlers").filter(|(_, line)| !line.starts_with(' '));
        names.map(|(_, line)| line.split_once(':').map_or(line, |(name, _)| name)).collect()
    }

    /// Runs the configuration. Returns the name and the text of each section of results.
    fn results(&self) -> Result<Vec<(&'static str, String)>, Mistake> {
        let (run, inputs, handlers) = (self.settings()?, self.inputs()?, self.handlers());
        let number = offer(inputs);
        let mut config = self.section("config").map(|section| section.body.clone()).unwrap_or_default();
        for end in (1..ENDS).rev() {
            config = config.replace(&format!("SOURCE{end}"), &format!("TestSource({number}, {end})"));
        }
        config = config.replace("SOURCE", &format!("TestSource({number}, 0)"));
        for sink in 0..ENDS {
            config = config.replace(&format!("SINK{sink}"), &format!("TestSink({number}, {sink})"));
        }
        let outcome = match run.text(&config, &handlers) {
            Ok(outcome) => outcome,
            Err(errors) => return Ok(vec![("errors", errors)]),
        };
        let line = self.section("config").map_or(1, |section| section.line + 1);
        if !outcome.report.balances() {
            return Err((line, format!("packets are missing: {:?}", outcome.report)));
        }
        if !outcome.errors.is_empty() {
            return Err((line, format!("errors at the end: {:?}", outcome.errors)));
        }
        let mut values = String::new();
        for (name, value) in handlers.iter().zip(outcome.values) {
            let value = value.unwrap_or_else(|error| format!("error: {error}"));
            match value.contains('\n') {
                true => {
                    let _ = writeln!(values, "{name}:");
                    value.lines().for_each(|line| values += &format!("  {line}\n"));
                }
                false => values += &format!("{}\n", format!("{name}: {value}").trim_end()),
            }
        }
        let (mut out, mut counters) = (String::new(), String::new());
        let has_times = self.section("out with times").is_some();
        for seen in collect(number) {
            let _ = write!(out, "{}: {}", seen.sink, hex(&seen.bytes));
            out += &if has_times { format!(" @{}\n", seen.time) } else { "\n".into() };
        }
        for e in outcome.report.elements.iter().filter(|e| !e.class.starts_with("Test")) {
            let drops: String = e.drops.iter().map(|(reason, n)| format!(", {reason} {n}")).collect();
            let _ =
                writeln!(counters, "{}: in {}, out {}, held {}{drops}", e.name, e.packets_in, e.out, e.held);
        }
        let out = (if has_times { "out with times" } else { "out" }, out);
        let text = ("messages", outcome.messages + &outcome.output);
        let mut results = vec![("handlers", values), out, text];
        if self.section("counters").is_some() {
            results.push(("counters", counters));
        }
        Ok(results)
    }

    /// Returns the text of the file with these results.
    fn with(&self, results: &[(&str, String)]) -> String {
        let mut text = self.title.clone();
        for name in SECTIONS {
            let given = self.section(name).map(|section| &section.body);
            let body = match results.iter().find(|(of, _)| *of == name) {
                Some((_, body)) => Some(body).filter(|body| given.is_some() || !body.is_empty()),
                None => given.filter(|_| ["run", "config", "packets"].contains(&name)),
            };
            text += &body.map(|body| format!("-- {name}\n{body}")).unwrap_or_default();
        }
        text
    }

    /// Returns the differences between the expected and the actual results, each with its line.
    fn differences(&self, results: &[(&str, String)]) -> Vec<Mistake> {
        let mut all = Vec::new();
        for name in SECTIONS {
            let actual = results.iter().find(|(of, _)| *of == name).map_or("", |(_, body)| body);
            let (line, expected) = self.section(name).map_or((1, ""), |s| (s.line + 1, &s.body));
            if !["run", "config", "packets"].contains(&name) && actual != expected {
                all.push((line, format!("{name}\nexpected:\n{expected}\nis:\n{actual}")));
            }
        }
        all
    }
}

/// Parses hexadecimal text such as `0800 00*20`, where `*20` repeats the bytes of its word twenty times.
fn bytes(line: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for word in line.split_whitespace() {
        let wrong = || format!("'{word}' is not hexadecimal with two digits per byte, such as 0800 or 00*20");
        let (hex, times) = word.split_once('*').unwrap_or((word, "1"));
        let times: usize = times.parse().map_err(|_| wrong())?;
        if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
            return Err(wrong());
        }
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| wrong());
        let unit: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
        (0..times).for_each(|_| bytes.extend_from_slice(&unit));
    }
    Ok(bytes)
}

/// Formats bytes as hexadecimal, in groups of four bytes.
fn hex(bytes: &[u8]) -> String {
    let groups = bytes.chunks(4).map(|g| g.iter().map(|b| format!("{b:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join(" ")
}

/// Returns the files in `folder` whose extension is `ending` (without the dot), sorted by path. Panics if
/// there are none.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
    assert!(!files.is_empty(), "no file in {} ends with .{ending}", folder.display());
    files.sort();
    files
}

/// Runs every file of `folder` whose name ends with `.test`. Panics if there are no files, or with the first
/// mistake of each file that cannot be run and all results that differ from the expected results. With the
/// environment variable `BLESS`, writes the results into the files instead of comparing them.
pub fn check(folder: &Path) {
    let mut failures = Vec::new();
    for file in files(folder, "test") {
        let text = std::fs::read_to_string(&file).unwrap();
        let found = Case::read(&text).and_then(|case| {
            let results = case.results()?;
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&file, case.with(&results)).unwrap();
                return Ok(Vec::new());
            }
            Ok(case.differences(&results))
        });
        for (line, what) in found.unwrap_or_else(|mistake| vec![mistake]) {
            failures.push(format!("{}:{line}: {what}", file.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "Two of three.\n-- config\nSOURCE -> q :: Queue(2) -> Unqueue(ACTIVE false) -> SINK0; q[1] -> SINK1
-- packets\n01\n02\n03 00*4 @7.5\n-- handlers\nq.length: 2\n-- out with times\n1: 03000000 00 @7.500000
-- messages\nq :: Queue: overflow\n-- counters\nq: in 3, out 1, held 0, stop 2\nUnqueue@3: in 0, out 0, held 0\n";

    #[test]
    fn results_are_compared_and_written() {
        let case = Case::read(QUEUE).unwrap();
        let results = case.results().unwrap();
        assert_eq!(case.differences(&results), []);
        assert_eq!(case.with(&results), QUEUE);
        let other = QUEUE.replace("Queue(2)", "Queue(1)");
        let other = Case::read(&other).unwrap();
        let lines: Vec<usize> =
            other.differences(&other.results().unwrap()).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [9, 11, 15]);
        // A file needs only its input and the names of handlers.
        let short = "-- config\nSOURCE1 -> c :: Counter -> SINK3\n-- packets\n1: 01\n-- handlers\nc.count\n";
        let case = Case::read(short).unwrap();
        let whole = case.with(&case.results().unwrap());
        assert_eq!(whole, format!("{}: 1\n-- out\n3: 01\n", short.trim_end()));
        // A refused configuration has errors only.
        let case = Case::read("-- config\nIdle -> Switch(3) -> Discard\n-- out\n0: 01\n").unwrap();
        let results = case.results().unwrap();
        assert!(results[0].0 == "errors" && results[0].1.contains("output must be < 1"), "{results:?}");
        assert_eq!(case.differences(&results).len(), 2);
    }

    #[test]
    fn mistakes_in_files_are_told_with_their_line() {
        for (text, line, expected) in [
            ("-- packets\n01\n", 1, "the file has no section '-- config'"),
            ("-- config\n-- output\n", 2, "no section is named 'output'; use run, config"),
            ("-- config\n-- config\n", 2, "the section 'config' is here for the second time"),
            ("-- config\n-- packets\n\n012\n", 4, "'012' is not hexadecimal"),
            ("-- config\n-- packets\n01*x\n", 3, "'01*x' is not hexadecimal"),
            ("-- config\n-- packets\n0ä\n", 3, "'0ä' is not hexadecimal"),
            ("-- config\n-- packets\n8: 01\n", 3, "the number of a source"),
            ("-- config\n-- packets\n01 @soon\n", 3, "'soon' is no time in seconds"),
            ("-- config\n-- run\nbursts 3\n", 3, "'bursts 3' is no setting"),
        ] {
            let mistake = Case::read(text).and_then(|case| case.results().map(drop)).unwrap_err();
            assert!(mistake.0 == line && mistake.1.starts_with(expected), "{text}: {mistake:?}");
        }
    }

    #[test]
    fn failures_name_file_and_line_and_no_files_are_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let failure = || {
            let failure = std::panic::catch_unwind(|| check(folder.path())).unwrap_err();
            failure.downcast_ref::<String>().cloned().unwrap_or_default()
        };
        assert!(failure().ends_with("ends with .test"), "{}", failure());
        std::fs::write(folder.path().join("a.test"), QUEUE.replace("length: 2", "length: 3")).unwrap();
        assert!(failure().contains("a.test:9: handlers\nexpected:\nq.length: 3"), "{}", failure());
    }
}
