//! The time at which machine code is made for a program.

/// The time at which machine code is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineCode {
    /// Never.
    Never,
    /// Once many packets have needed it, in a thread of its own.
    #[default]
    Later,
    /// Before the first packet.
    Now,
}

impl MachineCode {
    /// All variants.
    pub const ALL: [MachineCode; 3] = [MachineCode::Never, MachineCode::Later, MachineCode::Now];
}

/// Formats a time as in an argument of a configuration.
impl std::fmt::Display for MachineCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MachineCode::Never => "never",
            MachineCode::Later => "later",
            MachineCode::Now => "now",
        })
    }
}
