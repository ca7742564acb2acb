//! Elements for VLAN tags (IEEE 802.1Q), and their common part: the arguments and handlers that choose the
//! tag.

pub mod ether_vlan_encap;
pub mod set_vlan_anno;
pub mod strip_ether_vlan_header;
pub mod vlan_decap;
pub mod vlan_encap;

use crate::editing::within;
use element::args::{Raw, Scope, out_of_range, read_value};
use element::effects::{Field, Filter};
use element::{Args, Complaint, Cx, DefaultValue, Invalid, Packet};
use packet::Annotations;

/// The VLAN annotation as a field: the tag control information in network byte order.
pub(crate) const TCI: Field = Field::Annotation { offset: Annotations::VLAN_TCI as u8, length: 2 };

/// Returns the tag control information in a packet's VLAN annotation.
#[inline]
pub(crate) fn tci_annotation(packet: &Packet) -> u16 {
    let annotations = packet.annotations();
    u16::from_be_bytes([annotations.u8(Annotations::VLAN_TCI), annotations.u8(Annotations::VLAN_TCI + 1)])
}

/// True if an element of the graph reads the VLAN annotation. If not, it need not be set.
pub(crate) fn tci_is_read(cx: &Cx<'_>) -> bool {
    cx.graph().facts().annotation_read(Annotations::VLAN_TCI, 2)
}

/// Sets the tag control information in a packet's VLAN annotation.
#[inline]
pub(crate) fn set_tci_annotation(packet: &mut Packet, tci: u16) {
    let [high, low] = tci.to_be_bytes();
    let annotations = packet.annotations_mut();
    annotations.set_u8(Annotations::VLAN_TCI, high);
    annotations.set_u8(Annotations::VLAN_TCI + 1, low);
}

/// The bit of the tag control information for frames that may be dropped first.
const DROP_ELIGIBLE: u16 = 0x1000;

/// The arguments that choose a tag, in the order in which they are parsed. Handlers have these names in
/// lower case.
const NAMES: [&str; 4] = ["VLAN_TCI", "VLAN_PCP", "VLAN_ID", "NATIVE_VLAN"];

/// The choice of a tag, for all packets or by each packet's annotation.
pub(super) struct TagChoice {
    /// The tag control information of all packets; `None` if each packet has it in its annotation.
    tci: Option<u16>,
    /// The VLAN whose frames get no tag; `None` if all frames get one.
    native: Option<u16>,
}

/// Parses an argument as a number from `least` to `most`. Returns 0 if `text` is `None`, because the class
/// has no such argument. The error about a number out of bounds gives the bounds.
fn bounded(
    name: &str,
    text: Option<&String>,
    place: &Scope<'_>,
    (least, most): (i32, i32),
) -> Result<i32, Complaint> {
    let Some(text) = text else { return Ok(0) };
    let number: i32 = read_value(name, text, place)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let bound = if number < least { least } else { most };
    let reason = out_of_range(text, least, most);
    Err(Complaint::new(format!("{name}: {reason}"), format!("{name}: out of range, bound {bound}")))
}

impl TagChoice {
    /// Reads the arguments among [`NAMES`] that the class has. The class's positional arguments ahead of
    /// them must have been read before.
    ///
    /// # Errors
    /// If a number is invalid or out of bounds.
    pub(super) fn read(args: &mut Args<'_>, class: &element::Class) -> Result<TagChoice, Invalid> {
        let texts = NAMES.map(|name| match class.arg(name)?.default {
            DefaultValue::None => args.get(name).map(|Raw(text)| text),
            _ => Some(args.value(name)).map(|Raw(text)| text),
        });
        args.finish()?;
        let choice = TagChoice::new(texts, &args.place());
        choice.map_err(|reason| {
            args.error(reason);
            Invalid
        })
    }

    /// Returns the choice that the texts of the arguments [`NAMES`] make, at their indexes. `None` if an
    /// argument is neither given nor has a default.
    fn new(texts: [Option<String>; 4], place: &Scope<'_>) -> Result<TagChoice, Complaint> {
        let [tci, pcp, id, native] = &texts;
        let annotated = tci.as_deref() == Some("ANNO");
        let pcp = bounded("VLAN_PCP", pcp.as_ref(), place, (0, 7))?;
        let id = bounded("VLAN_ID", id.as_ref(), place, (0, 0xfff))?;
        let native = bounded("NATIVE_VLAN", native.as_ref(), place, (-1, 0xfff))?;
        let base = match tci {
            Some(_) if annotated => 0,
            Some(_) => bounded("VLAN_TCI", tci.as_ref(), place, (0, 0xffff))?,
            None => id,
        };
        let tci = (!annotated).then_some((base | pcp << 13) as u16);
        Ok(TagChoice { tci, native: u16::try_from(native).ok() })
    }

    /// True if each packet's annotation has its tag control information.
    pub(super) fn is_annotated(&self) -> bool {
        self.tci.is_none()
    }

    /// Returns the filter for packets whose annotation has the native VLAN, so that they get no tag.
    pub(super) fn is_native(&self) -> Filter {
        match self.native {
            Some(native) => within(TCI, 0xfff, native.into(), native.into()),
            None => Filter::TRUE.not(),
        }
    }

    /// Returns the tag control information for a packet; `None` if its VLAN is the native VLAN, so that it
    /// gets no tag.
    #[inline]
    pub(super) fn tag(&self, packet: &Packet) -> Option<u16> {
        let tci = self.tci.unwrap_or_else(|| tci_annotation(packet));
        (self.native != Some(tci & 0xfff)).then_some(tci)
    }

    /// Returns the tag control information that all packets get. Returns `None` if their VLAN is the native
    /// VLAN, or if each packet's annotation decides.
    pub(super) fn tag_of_constant(&self) -> Option<u16> {
        self.tci.filter(|tci| self.native != Some(tci & 0xfff))
    }

    /// Returns the configured tag control information; 0 if each packet's annotation decides.
    pub(super) fn constant(&self) -> u16 {
        self.tci.unwrap_or(0)
    }

    /// Returns the arguments from which this choice can be made.
    pub(super) fn configuration(&self) -> String {
        let tag = match self.tci {
            None => "ANNO".to_string(),
            // The bit between them, the drop eligible indicator, is a part of neither.
            Some(tci) if tci & DROP_ELIGIBLE != 0 => format!("VLAN_TCI {tci}"),
            Some(tci) => format!("VLAN_ID {}, VLAN_PCP {}", tci & 0xfff, tci >> 13),
        };
        match self.handler("native_vlan") {
            native if native.is_empty() => tag,
            native => format!("{tag}, NATIVE_VLAN {native}"),
        }
    }

    /// Returns the text of a handler, which is the value of the argument of this name. For `vlan_tci` it is
    /// the resulting tag control information, or `ANNO`. It is empty if each packet has the value in its
    /// annotation, and for the native VLAN 0, which is the default.
    pub(super) fn handler(&self, name: &str) -> String {
        let part = |part: fn(u16) -> u16| self.tci.map_or(String::new(), |tci| part(tci).to_string());
        match (name, self.native) {
            ("vlan_tci", _) => self.tci.map_or("ANNO".into(), |tci| tci.to_string()),
            ("vlan_id", _) => part(|tci| tci & 0xfff),
            ("vlan_pcp", _) => part(|tci| tci >> 13),
            ("native_vlan", None) => "-1".into(),
            ("native_vlan", Some(native)) if native > 0 => native.to_string(),
            _ => String::new(),
        }
    }

    /// Sets the argument with a handler's name to this value, as if it had been configured. If the argument
    /// is invalid, returns its error, and changes nothing. VLAN_ID and VLAN_PCP have no effect while each
    /// packet has the tag in its annotation.
    pub(super) fn set(&mut self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        let tci = self.tci.unwrap_or(0);
        let mut texts = [
            self.is_annotated().then(|| "ANNO".to_string()),
            Some((tci >> 13).to_string()),
            Some((tci & 0xfff).to_string()),
            Some(self.native.map_or(-1, i32::from).to_string()),
        ];
        if let Some(place) = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            texts[place] = Some(value.trim().to_string());
        }
        if name.eq_ignore_ascii_case("vlan_tci") {
            // The value is the whole tag control information.
            texts[1] = Some("0".into());
        }
        let mut new = TagChoice::new(texts, &cx.place())?;
        if let (Some(new), false) = (&mut new.tci, name.eq_ignore_ascii_case("vlan_tci")) {
            *new |= tci & DROP_ELIGIBLE;
        }
        *self = new;
        Ok(())
    }
}
