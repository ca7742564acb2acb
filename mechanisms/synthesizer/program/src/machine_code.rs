//! The argument `MACHINE_CODE` of a program: the time at which machine code is made for its parts.

/// The time at which machine code is made for a path through a program, or for the operation of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineCode {
    /// No machine code is made; the runtime interprets the program's tables.
    Never,
    /// Machine code for a path or an operation is made once many packets have needed it, in a thread of its
    /// own.
    #[default]
    Later,
    /// Machine code for a path or an operation is made when packets first need it. These packets wait for the
    /// code.
    Now,
}

impl MachineCode {
    /// All variants, for the parser.
    pub const ALL: [MachineCode; 3] = [MachineCode::Never, MachineCode::Later, MachineCode::Now];
}

/// Formats the time as the argument `MACHINE_CODE` has it: `never`, `later` or `now`.
impl std::fmt::Display for MachineCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MachineCode::Never => "never",
            MachineCode::Later => "later",
            MachineCode::Now => "now",
        })
    }
}
