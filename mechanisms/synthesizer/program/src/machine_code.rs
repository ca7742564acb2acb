//! The argument `MACHINE_CODE` of a program: the time at which machine code is made for its parts.

/// The time at which machine code is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineCode {
    /// No machine code is made; the runtime interprets the program's tables.
    Never,
    /// Machine code for a part of the program is made once many packets have needed the part, in a thread
    /// of its own.
    #[default]
    Later,
    /// Machine code is made before the first packet is processed.
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
