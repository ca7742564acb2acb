//! The text formats of metrics: OpenMetrics 1.0, and the older text format 0.0.4 of Prometheus.

use std::fmt::{Display, Write};

use element::MetricKind;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Prometheus,
}

impl Format {
    /// Chooses the format by a client's header `Accept`.
    pub(crate) fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A text of metrics that is being written. The samples of a metric follow its head.
pub(crate) struct Text {
    text: String,
    format: Format,
    /// The name of the samples of the metric that is being written.
    name: String,
}

impl Text {
    pub(crate) fn new(format: Format) -> Text {
        Text { text: String::new(), format, name: String::new() }
    }

    /// Begins a metric. `name` is without the `_total` of counters.
    pub(crate) fn head(&mut self, name: &str, kind: MetricKind, help: &str) {
        let (kind, end) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
        };
        self.name = format!("{name}{end}");
        let head = if self.format == Format::OpenMetrics { name } else { &self.name };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(self.text, "# HELP {head} {help}\n# TYPE {head} {kind}\n");
    }

    /// Writes a sample of the metric whose head came last.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"", if number == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Ends the text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut text = Text::new(format);
        text.head("a_packets", MetricKind::Counter, "Packets\\and\nlines.");
        text.sample(&[("element", "a\"b\\c\nd"), ("class", "X")], 3_u64);
        text.head("b", MetricKind::Gauge, "B.");
        text.sample(&[], 0.5);
        text.finish()
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let sample = "a_packets_total{element=\"a\\\"b\\\\c\\nd\",class=\"X\"} 3\n";
        let rest = "# HELP b B.\n# TYPE b gauge\nb 0.5\n";
        let head = "# HELP a_packets Packets\\\\and\\nlines.\n# TYPE a_packets counter\n";
        assert_eq!(written(Format::OpenMetrics), format!("{head}{sample}{rest}# EOF\n"));
        assert_eq!(
            written(Format::Prometheus),
            format!("{}{sample}{rest}", head.replace("a_packets ", "a_packets_total "))
        );
        assert_eq!(Format::accepted("text/html, */*;q=0.1"), Format::Prometheus);
        assert_eq!(
            Format::accepted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
    }
}
