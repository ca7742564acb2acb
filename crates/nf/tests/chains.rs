//! Tests of chains of elements, each described in a text file in `chains`: the configuration, input packets,
//! and the expected results. [`testkit::cases`] says how such a file looks.

use std::path::Path;

#[test]
fn chains_do_what_their_files_say() {
    testkit::cases::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chains"));
}
