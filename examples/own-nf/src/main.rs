//! The program `tidegate` with the elements of this crate in addition to its own.

fn main() -> std::process::ExitCode {
    tidegate::main(own_nf::CLASSES)
}
