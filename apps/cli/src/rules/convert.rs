//! `tidegate rules convert`: writes a rule set in another format.

use std::path::PathBuf;

use clap::ValueEnum;
use rules::lint::lint;
use rules::merge::merge;
use rules::read::RuleError;
use rules::write::{WrittenFormat, lacks_actions, with_actions, write};

use super::source::Source;
use super::{Limits, tell_notes};
use crate::analyze::can_write;
use crate::check::print_or_write;
use crate::status::Status;

/// The arguments of `rules convert`.
#[derive(clap::Args)]
#[command(after_help = "\
A rule that a format cannot express is an error. Rules of ClassBench, which have no actions, become rules that accept.

Exit status: 0 written, 2 an error.")]
pub(super) struct Args {
    /// The rule set
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format to write
    #[arg(long, value_enum)]
    to: Target,
    /// Remove rules that are not needed and join rules that can be one, with a proof that the result does the
    /// same
    #[arg(long)]
    merge: bool,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    limits: Limits,
}

/// The name of a format that is written.
#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Rules of IPFilter, one per line, for `IPFilter(file NAME)`
    Ipfilter,
    /// A table for `nft -f`
    Nftables,
    /// Flow entries for `ovs-ofctl add-flows`
    Openflow,
    /// Table entries for P4Runtime, as JSON
    P4,
}

pub(super) fn run(args: &Args) -> Status {
    can_write(&args.output)?;
    let mut set = args.source.read(&args.file)?;
    tell_notes(&set);
    if lacks_actions(&set) {
        crate::tell(format_args!("note: {}: the rules have no actions; all of them accept", set.name));
        set = with_actions(&set);
    }
    if args.merge {
        let before = set.rules.len();
        // The written rules are one list, in which each use of a rule in a chain is a rule of its own.
        set.rules.iter_mut().enumerate().for_each(|(index, rule)| rule.origin = index);
        let space = args.limits.space();
        let shorter = lint(&set, &space).and_then(|findings| merge(&set, &findings, &space));
        let shorter = shorter.map_err(|error| args.limits.exhausted(error))?;
        if !shorter.is_proven {
            return Err("the proof that the shorter rules do the same has failed; please report this".into());
        }
        set = shorter.set;
        let after = set.rules.len();
        crate::tell(format_args!("note: {before} rules became {after}, which is proven to do the same"));
    }
    let format = match args.to {
        Target::Ipfilter => WrittenFormat::IpFilter,
        Target::Nftables => WrittenFormat::Nftables,
        Target::Openflow => WrittenFormat::OpenFlow,
        Target::P4 => WrittenFormat::P4,
    };
    let text = write(&set, format).map_err(|errors| {
        let shown = errors.iter().take(20).map(RuleError::to_string).collect::<Vec<_>>().join("\n");
        let more = errors.len().saturating_sub(20);
        if more > 0 { format!("{shown}\nand {more} more") } else { shown }
    })?;
    print_or_write(&text, args.output.as_deref())
}
