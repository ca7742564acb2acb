//! The common element for the packets that come back to a translator of one direction, FlowIPNAT or
//! FlowNAPTLoadBalancer: it translates by the mappings that the translator has made.

use std::sync::Arc;

use element::args::ElementRef;
use element::effects::Support;
use element::{Args, Batch, Cx, Effects, Element, ElementId, Invalid};
use packet::Annotations;

use crate::sorting::Sorter;

use super::declaration;
use super::desk::Translation;
use super::elsewhere::ForeignFlows;
use super::flavour::Flavour;
use super::ftp_port_mapper::Helps;
use super::published::Published;
use super::rewriter::translate;
use super::spec::Spec;

/// The service that a translator of one direction publishes, in addition to [`Published`], for the element
/// that translates the other direction: the translator's class.
pub(super) struct OneWay(pub(super) &'static str);

struct Reverse {
    translator: ElementId,
    published: Arc<Published>,
    desk: Translation,
    is_read: bool,
    sorter: Sorter,
    elsewhere: ForeignFlows,
}

/// Builds the element for the packets that come back to the translator that the argument `name` names.
/// `class` is the translator's class.
///
/// # Errors
/// If the argument does not name a translator of this class.
pub(super) fn build(
    args: &mut Args<'_>,
    name: &'static str,
    class: &str,
) -> Result<Box<dyn Element>, Invalid> {
    let ElementRef(translator) = args.required_or(name, ElementRef(0));
    args.finish()?;
    if args.setup.service::<OneWay>(translator).is_none_or(|way| way.0 != class) {
        args.error(format!("{name}: element is not a {class}"));
    }
    args.finish()?;
    // A translator with errors of its own publishes no mappings.
    let published = args.setup.service::<Published>(translator).ok_or(Invalid)?;
    // An FTPPortMapper changes mappings of the translator, which this element reads, too.
    let is_helped = Helps::has(args.setup, translator);
    let desk = Translation::new(Flavour::Both, vec![Spec::Drop], args.outputs());
    let desk = Translation { sets_next_hop: true, is_helped, ..desk };
    Ok(Box::new(Reverse {
        translator,
        published,
        desk,
        is_read: true,
        sorter: Sorter::new(args.outputs()),
        elsewhere: ForeignFlows::default(),
    }))
}

impl Element for Reverse {
    fn effects(&self) -> Effects {
        let effects = declaration::effects(&self.desk);
        // The translator leases flows of both directions, but not this element.
        let support = Support { leases: None, ..effects.support };
        let opaque = Some("another element owns the mappings");
        Effects { beside: vec![self.translator], opaque, support, ..effects }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.is_read = cx.graph().facts().annotation_read(Annotations::DST_IP, 4);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        let Reverse { published, desk, sorter, is_read, elsewhere, .. } = self;
        translate(cx, published.home(), (desk, *is_read), (sorter, elsewhere), (port, batch))
    }
}
