//! Tests of the text of SVG pictures.

use super::*;

const SUBJECT: Subject<'_> = Subject { title: "A paper, Figure 1", about: "Cost & \"more\" <of> it" };

fn point(x: f64, y: f64) -> Point {
    Point { x, y, quartiles: Some([y - 1.0, y + 1.0]) }
}

fn panel(x: Axis, series: Vec<Series>) -> Panel {
    Panel { title: "Cost".into(), x, y: Axis::log("cost, ns per packet").less_is_better(), series }
}

fn drawing(panels: &[Panel]) -> String {
    svg(&SUBJECT, panels, None).unwrap()
}

/// Returns the values of an attribute of all SVG elements with this name, in the order of the text.
fn values<'t>(text: &'t str, element: &str, attribute: &str) -> Vec<&'t str> {
    let start = format!(" {attribute}=\"");
    text.split(&format!("<{element}"))
        .skip(1)
        .filter_map(|part| part.split('>').next()?.split_once(&start)?.1.split('"').next())
        .collect()
}

/// Returns the x in pixels of the quartile bars (vertical lines of width 2), in drawing order.
fn bars(text: &str) -> Vec<i32> {
    let parts = text.split("<polyline ").skip(1).filter(|part| {
        let element = part.split('>').next().unwrap_or_default();
        element.contains("stroke-width=\"2\"")
    });
    let ends = parts.filter_map(|part| {
        let points: Vec<&str> =
            part.split_once("points=\"")?.1.split('"').next()?.split_whitespace().collect();
        let [a, b] = points[..] else { return None };
        let x = |end: &str| end.split(',').next()?.parse::<i32>().ok();
        let y = |end: &str| end.split(',').nth(1)?.parse::<i32>().ok();
        // Vertical lines of at most 10 pixels are parts of marks.
        (x(a) == x(b) && (y(a)? - y(b)?).abs() > 10).then(|| x(a)).flatten()
    });
    ends.collect()
}

#[test]
fn everything_is_in_the_picture() {
    let ours = Series::new("here", [point(1.0, 20.0), point(2.0, 30.0)]);
    let theirs = Series::of_paper("SNF paper", [(1.0, 40.0), (2.0, 45.0)]);
    let floor = Series::floor([(1.0, 9.0), (2.0, 9.5)]);
    let series = vec![ours, theirs, floor];
    let named = Axis::names("kind", ["first", "second", "third"]);
    let panels = [Axis::log("SLF"), named, Axis::linear("load")].map(|x| panel(x, series.clone()));
    let text = drawing(&panels);
    let said = [
        "Cost",
        "SLF (log)",
        "cost, ns per packet (log)",
        "less is better",
        "here",
        "SNF paper",
        "second",
        "load",
        "floor",
        "Points: medians, bars: quartiles; grey marks and dashes: values of a paper; grey, thin: the floor",
    ];
    for said in said {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(!text.contains("NaN") && !text.contains("load (log)"));
    // All text has at least 12 pixels.
    let sizes = values(&text, "text", "font-size");
    assert!(sizes.len() > 30 && sizes.iter().all(|size| size.parse::<f64>().unwrap() >= 12.0), "{sizes:?}");
    // A panel without series can be drawn.
    let nothing = [panel(Axis::log("SLF"), Vec::new())];
    let warned = svg(&SUBJECT, &nothing, Some("The machine was busy")).unwrap();
    let unwarned = drawing(&nothing);
    assert!(warned.contains("The machine was busy") && !unwarned.contains("busy"));
    assert!(!unwarned.contains("quartiles"), "{unwarned}");
}

#[test]
fn pictures_say_what_they_are_to_those_who_do_not_see_them() {
    let text = drawing(&[panel(Axis::log("SLF"), vec![Series::new("a < b", [point(1.0, 5.0)])])]);
    assert!(text.starts_with("<svg ") && text.split('>').next().unwrap().contains("role=\"img\""));
    assert!(text.contains("<title>A paper, Figure 1</title>"));
    let about = text.split_once("<desc>").unwrap().1.split("</desc>").next().unwrap();
    assert!(about.starts_with(
        "Cost &amp; &quot;more&quot; &lt;of&gt; it. Cost: cost, ns per packet (log), less is better"
    ));
    assert!(about.contains("a &lt; b") && about.contains("Points: medians, bars: quartiles."), "{about}");
    // The picture has a white background, independent of the page.
    assert_eq!(values(&text, "rect", "fill")[0], "#FFFFFF");
}

#[test]
fn bars_at_one_place_stand_side_by_side() {
    let axes = [Axis::linear("load"), Axis::log("load"), Axis::names("way", ["none", "one", "two"])];
    for axis in axes {
        let series = |name: &str, y: f64| {
            let point = |x: f64| Point { x, y, quartiles: Some([y / 2.0, y * 2.0]) };
            Series::new(name, [1.0, 2.0].map(point))
        };
        let all: Vec<Series> = ["a", "b", "c"].into_iter().map(|name| series(name, 20.0)).collect();
        let text = drawing(&[panel(axis.clone(), all)]);
        let bars = bars(&text);
        assert_eq!(bars.len(), 6, "{axis:?}: {bars:?}");
        for first in [0, 1] {
            let [a, b, c] = [0, 2, 4].map(|series| bars[first + series]);
            assert!((3..=6).contains(&(b - a)) && c - b == b - a, "{axis:?}: {bars:?}");
        }
        // The mark of the first series, a disc, is shifted horizontally together with its quartile bar.
        let discs = values(&text, "circle", "cx");
        assert!(discs.contains(&bars[0].to_string().as_str()), "{discs:?} {bars:?}");
        // If a panel has a single series, its quartile bars are not shifted.
        let alone = drawing(&[panel(axis, vec![series("a", 20.0)])]);
        assert_eq!(self::bars(&alone), [bars[2], bars[3]]);
    }
}

#[test]
fn a_single_series_has_no_legend() {
    let ours = || Series::new("measured here", [point(1.0, 20.0), point(2.0, 30.0)]);
    let legend = |text: &str| text.matches("measured here\n</text>").count();
    assert_eq!(legend(&drawing(&[panel(Axis::log("SLF"), vec![ours()])])), 0);
    let with_paper = vec![ours(), Series::of_paper("SNF paper", [(1.0, 10.0)])];
    assert_eq!(legend(&drawing(&[panel(Axis::log("SLF"), with_paper)])), 1);
}

#[test]
fn long_legends_have_two_columns() {
    let many = |name: &str| -> Vec<Series> {
        (0..10).map(|n| Series::new(format!("{name} {n}"), [point(1.0, 20.0)])).collect()
    };
    let height = |name: &str| panel(Axis::log("SLF"), many(name)).legend_height();
    assert_eq!(2 * height("short"), height("a name that is longer than half of the picture"));
}

#[test]
fn words_are_parted_into_lines() {
    assert_eq!(words::lines("one two three", 7), ["one two", "three"]);
    assert!(words::lines("", 7).is_empty());
    assert_eq!(words::lines("unbreakable", 3), ["unbreakable"]);
}
