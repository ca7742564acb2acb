//! `tidegate` with this crate's elements beside its own.

fn main() -> std::process::ExitCode {
    tidegate::main(own_nf::CLASSES)
}
