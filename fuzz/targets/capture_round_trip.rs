//! The entry point of libFuzzer for [`tidegate_fuzz::capture_round_trip`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::capture_round_trip(data));
