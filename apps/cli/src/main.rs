//! The program `tidegate`, without elements other than the product's.

fn main() -> std::process::ExitCode {
    tidegate::main(&[])
}
