//! Tests of WorkPackage, the element that simulates the work of a network function.

use testkit::TestRun;

#[test]
fn packets_pass_and_arguments_are_checked() {
    for arguments in ["W 1000", "S 1, N 100", "N 100, R 100", "S 1, N 100, R 30, PAYLOAD true"] {
        for length in [0, 1, 3, 4, 60, 1500] {
            let text = format!(
                "InfiniteSource(LENGTH {length}, LIMIT 50) -> WorkPackage({arguments}) -> c :: Counter -> Discard"
            );
            let outcome = TestRun::default().text(&text, &["c.count"]).unwrap();
            assert_eq!(outcome.values, [Ok("50".to_string())], "{arguments}");
        }
    }
    for (arguments, error) in [
        ("N 1", "N needs S megabytes"),
        ("R 101", "R: at most 100"),
        ("S 65537", "S: at most 65536"),
        ("W -1", "W"),
    ] {
        let text = format!("Idle -> WorkPackage({arguments}) -> Discard");
        let errors = TestRun::default().text(&text, &[]).unwrap_err();
        assert!(errors.contains(error), "{errors}");
    }
}
