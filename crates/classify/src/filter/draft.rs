//! A question of a filter (a test of one property, such as `src port 80`) while it is parsed: the qualifiers,
//! sign and value that its words have set so far. This file also has the rules by which qualifiers, sign and
//! value become a [`Primitive`].

use std::fmt;

use super::{FieldPlace, Primitive, Protocol, Relation, Sides, Sign, Version};

/// The property of a packet that a question of a filter tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Ether,
    Protocol,
    Port,
    TcpOption,
    Fragment,
    Whole,
    Ect,
    Ce,
    Field(FieldPlace),
}

impl Kind {
    /// Returns the kind of question that a word names; `None` if the word names none.
    pub(super) fn named(word: &str) -> Option<Kind> {
        Some(match word {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "proto" => Kind::Protocol,
            "port" => Kind::Port,
            "opt" => Kind::TcpOption,
            "frag" => Kind::Fragment,
            "unfrag" => Kind::Whole,
            "ect" => Kind::Ect,
            "ce" => Kind::Ce,
            "vers" => Kind::Field(FieldPlace::VERSION),
            "hl" => Kind::Field(FieldPlace::HEADER_LENGTH),
            "tos" => Kind::Field(FieldPlace::TOS),
            "dscp" => Kind::Field(FieldPlace::DSCP),
            "len" => Kind::Field(FieldPlace::LENGTH),
            "id" => Kind::Field(FieldPlace::ID),
            "ttl" => Kind::Field(FieldPlace::TTL),
            "win" => Kind::Field(FieldPlace::TCP_WINDOW),
            "type" => Kind::Field(FieldPlace::ICMP_TYPE),
            _ => return None,
        })
    }

    /// True if the word names a kind of question, a header, or the source or destination, or is `not`. Such a
    /// word is no value, unless a kind of question stands ahead of it and the configuration declares the word
    /// as the name of a port.
    pub(super) fn is_word(word: &str) -> bool {
        let syntax = ["src", "dst", "dest", "ip", "ip6", "ether", "not"];
        Kind::named(word).is_some() || syntax.contains(&word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Host => "ip host",
            Kind::Net => "ip net",
            Kind::Ether => "ether host",
            Kind::Protocol => "proto",
            Kind::Port => "port",
            Kind::TcpOption => "tcp opt",
            Kind::Fragment => "ip frag",
            Kind::Whole => "ip unfrag",
            Kind::Ect => "ip ect",
            Kind::Ce => "ip ce",
            Kind::Field(place) => return place.fmt(f),
        })
    }
}

/// The header whose addresses or protocols a question of a filter is about, as named by `ip`, `ip6` or
/// `ether`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFamily {
    Ip,
    Ip6,
    Ether,
}

/// The mask after `&`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    Number(u32),
    Ip(u32),
    Ip6(u128),
    Ether([u8; 6]),
}

/// The value that a test compares with (`http` in `port http`). Names have already been looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Data {
    #[default]
    None,
    Number(i128),
    Host(u32),
    Net(u32, u32),
    Host6(u128),
    Net6(u128, u128),
    Ether([u8; 6]),
    Protocol(Protocol),
    Port(u16),
    TcpFlag(u8),
    IcmpType(u8),
}

impl Data {
    fn number(self) -> Option<i128> {
        match self {
            Data::Number(number) => Some(number),
            Data::Port(number) => Some(number.into()),
            Data::TcpFlag(number) | Data::IcmpType(number) => Some(number.into()),
            _ => None,
        }
    }
}

/// The qualifiers of the previous question. A question without a kind of its own takes its missing qualifiers
/// from the previous question, such as `81` in `src port 80 or 81`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Previous {
    family: Option<AddressFamily>,
    kind: Option<Kind>,
    ends: Option<Sides>,
    protocol: Option<Protocol>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) family: Option<AddressFamily>,
    pub(super) kind: Option<Kind>,
    /// True if the kind is a field written in brackets, such as `ip6[7]`. Of the fields of the IP header,
    /// only fields in brackets and the version can be tested in an IPv6 header.
    pub(super) bracketed: bool,
    pub(super) ends: Option<Sides>,
    pub(super) protocol: Option<Protocol>,
    pub(super) mask: Option<Mask>,
    pub(super) sign: Sign,
    pub(super) data: Data,
    /// True if error messages have Click's words; false for Tidegate's own words.
    pub(super) as_click: bool,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            family: None,
            kind: None,
            bracketed: false,
            ends: None,
            protocol: None,
            mask: None,
            sign: Sign::Equal,
            data: Data::None,
            as_click: false,
        }
    }
}

/// Messages about a question, each with a flag that is true if the message is only a warning.
type Notes = Vec<(String, bool)>;

/// The text of the error that makes a question invalid.
type Fault = String;

impl Draft {
    /// Sets the kind of the question, and the transport protocol that the kind implies. Returns the text of
    /// an error if a kind, or another protocol, was set before.
    pub(super) fn set_kind(&mut self, kind: Kind) -> Option<String> {
        let twice = self.kind.replace(kind).is_some();
        let of_protocol = match kind {
            Kind::Field(place) => place.protocol.and_then(|protocol| self.set_protocol(protocol)),
            _ => None,
        };
        if twice { Some("type specified twice".into()) } else { of_protocol }
    }

    pub(super) fn set_ends(&mut self, ends: Sides) -> Option<String> {
        self.ends.replace(ends).map(|_| "'src' or 'dst' specified twice".into())
    }

    pub(super) fn set_protocol(&mut self, protocol: Protocol) -> Option<String> {
        let before = self.protocol.replace(protocol);
        before.filter(|&b| b != protocol).map(|_| "transport protocol specified twice".into())
    }

    /// Completes the question. Missing qualifiers are inferred from the value, or taken from `previous`.
    /// Returns the primitive with the qualifiers for the next question, or `None` after an error. Errors and
    /// warnings are added to `notes`.
    pub(super) fn finish(mut self, previous: &Previous, notes: &mut Notes) -> Option<(Primitive, Previous)> {
        let had_ends = self.ends.is_some();
        let done = self.infer_kind(previous).and_then(|kind| {
            let family = self.infer_family(previous);
            let kind = if family == AddressFamily::Ether && kind == Kind::Host { Kind::Ether } else { kind };
            self.kind = Some(kind);
            self.primitive(kind, family, notes).map(|primitive| (primitive, kind, family))
        });
        let (primitive, kind, family) = match done {
            Ok(done) => done,
            Err(fault) => {
                notes.push((fault, false));
                return None;
            }
        };
        let has_ends = matches!(kind, Kind::Host | Kind::Net | Kind::Port | Kind::Ether);
        if had_ends && !has_ends {
            notes.push((format!("'{}': 'src' or 'dst' ignored", self.described()), true));
        }
        let kind = match kind {
            Kind::Net => Kind::Host,
            Kind::Ect | Kind::Ce => Kind::Field(FieldPlace::TOS),
            kind => kind,
        };
        // Qualifiers that were inferred for this question count for the next question like written ones.
        let ends = if has_ends { Some(self.ends()) } else { self.ends };
        let protocol = match kind {
            Kind::Port => self.protocol.or(Some(Protocol::TcpOrUdp)),
            Kind::Protocol => None,
            _ => self.protocol,
        };
        let family = Some(family).filter(|&family| family == AddressFamily::Ip6);
        Some((primitive, Previous { family, kind: Some(kind), ends, protocol }))
    }

    fn infer_kind(&mut self, previous: &Previous) -> Result<Kind, Fault> {
        if let Some(kind) = self.kind {
            return Ok(kind);
        }
        let kind = match self.data {
            Data::Host(_) | Data::Host6(_) => Kind::Host,
            Data::Net(..) | Data::Net6(..) => Kind::Net,
            Data::Ether(_) => Kind::Ether,
            Data::TcpFlag(_) => Kind::TcpOption,
            Data::Protocol(_) => Kind::Protocol,
            Data::Port(_) => Kind::Port,
            Data::IcmpType(_) => Kind::Field(FieldPlace::ICMP_TYPE),
            Data::Number(_) => match previous.kind {
                Some(kind @ (Kind::Field(_) | Kind::Protocol | Kind::Port)) => kind,
                _ => return Err("specify header field or 'port'".into()),
            },
            Data::None if self.protocol.is_some() => Kind::Protocol,
            Data::None => return Err("partial directive".into()),
        };
        match kind {
            Kind::Host | Kind::Net | Kind::Ether | Kind::TcpOption => self.ends = self.ends.or(previous.ends),
            Kind::Port => {
                self.ends = self.ends.or(previous.ends);
                self.protocol = self.protocol.or(previous.protocol);
            }
            Kind::Field(place) => self.protocol = self.protocol.or(place.protocol),
            _ => {}
        }
        Ok(kind)
    }

    fn infer_family(&self, previous: &Previous) -> AddressFamily {
        self.family.unwrap_or(match self.data {
            Data::Ether(_) => AddressFamily::Ether,
            Data::Host6(_) | Data::Net6(..) => AddressFamily::Ip6,
            Data::Number(_) | Data::Port(_) | Data::TcpFlag(_) => {
                previous.family.unwrap_or(AddressFamily::Ip)
            }
            _ => AddressFamily::Ip,
        })
    }

    fn ends(&self) -> Sides {
        self.ends.unwrap_or(Sides::Either)
    }

    /// Returns the words `src` and `dst` of the question and its kind as text for messages, such as `src ip
    /// host`.
    fn described(&self) -> String {
        let ends = match self.ends {
            None => "",
            Some(Sides::Source) => "src ",
            Some(Sides::Destination) => "dst ",
            Some(Sides::Either) => "src or dst ",
            Some(Sides::Both) => "src and dst ",
        };
        match self.kind {
            Some(kind) => format!("{ends}{kind}"),
            None => format!("{ends}<none>"),
        }
    }

    fn fault<T>(&self, text: &str) -> Result<T, Fault> {
        Err(format!("'{}': {text}", self.described()))
    }

    fn too_large<T>(&self, what: &str, largest: impl fmt::Display) -> Result<T, Fault> {
        match self.as_click {
            true => self.fault(&format!("{what}out of range, bound {largest}")),
            false => self.fault(&format!("{what}too large; the most is {largest}")),
        }
    }

    fn primitive(
        &mut self,
        kind: Kind,
        family: AddressFamily,
        notes: &mut Notes,
    ) -> Result<Primitive, Fault> {
        let version = match (kind, family) {
            (Kind::Ether, AddressFamily::Ether) => return self.ether(),
            (Kind::Host | Kind::Net, AddressFamily::Ether) | (Kind::Ether, _) => {
                return self.fault("address missing");
            }
            (_, AddressFamily::Ip) => Version::V4,
            (_, AddressFamily::Ether) => return self.fault("ip only"),
            (_, AddressFamily::Ip6) => Version::V6,
        };
        if version == Version::V6 && self.is_of_ipv4_only(kind) {
            return self.fault("not a field of ip6");
        }
        let nothing_more = self.data == Data::None && self.mask.is_none();
        match kind {
            Kind::Host | Kind::Net | Kind::Ether => self.host(kind, version),
            Kind::Protocol => self.protocol(version, notes),
            Kind::Port => {
                let Some(number) = self.data.number() else { return self.fault("value missing") };
                let protocol = self.protocol.unwrap_or(Protocol::TcpOrUdp);
                match protocol {
                    Protocol::TCP | Protocol::UDP | Protocol::DCCP | Protocol::TcpOrUdp => {}
                    Protocol::Number(number) => return Err(format!("'port': bad protocol {number}")),
                    Protocol::Any => return Err("'port': bad protocol transp".into()),
                }
                let relation = self.relation(0xffff, number, notes)?;
                Ok(Primitive::Port { version, protocol, ends: self.ends(), relation })
            }
            Kind::TcpOption => {
                let Some(number) = self.data.number() else { return self.fault("value missing") };
                match self.protocol {
                    None | Some(Protocol::TCP) => {}
                    Some(Protocol::Number(number)) => {
                        return Err(format!("'tcp opt': bad protocol {number}"));
                    }
                    Some(other) => return Err(format!("'tcp opt': bad protocol {other}")),
                }
                if self.sign != Sign::Equal || self.mask.is_some() {
                    return self.fault("operator or mask not supported");
                }
                let Ok(flags) = u8::try_from(number) else {
                    return Err(format!("'tcp opt': value {number} out of range"));
                };
                self.protocol = Some(Protocol::TCP);
                Ok(Primitive::TcpFlags { version, flags })
            }
            Kind::Fragment | Kind::Whole if nothing_more => {
                Ok(Primitive::Fragment { fragment: kind == Kind::Fragment })
            }
            Kind::Ce if nothing_more => Ok(self.tos(Sign::Equal, 3)),
            Kind::Fragment | Kind::Whole | Kind::Ce => self.fault("value not supported"),
            Kind::Ect => match self.data {
                Data::None => Ok(self.tos(Sign::NotEqual, 0)),
                Data::Number(number) => {
                    let relation = self.relation(3, number, notes)?;
                    Ok(Primitive::Field { version, place: FieldPlace::TOS, relation })
                }
                _ => self.fault("value missing"),
            },
            Kind::Field(place) => {
                let number = match self.data {
                    Data::Number(number) => number,
                    Data::IcmpType(number) if place == FieldPlace::ICMP_TYPE => number.into(),
                    _ => return self.fault("value missing"),
                };
                let relation = self.relation(place.largest(), number, notes)?;
                // A field of the IP header is looked up in the IP header, whatever protocol the question
                // names. A field of a transport header is looked up in the header of the protocol that the
                // question names.
                let place = FieldPlace { protocol: place.protocol.and(self.protocol), ..place };
                Ok(Primitive::Field { version, place, relation })
            }
        }
    }

    fn is_of_ipv4_only(&self, kind: Kind) -> bool {
        match kind {
            Kind::Fragment | Kind::Whole | Kind::Ect | Kind::Ce => true,
            Kind::Field(place) => place.protocol.is_none() && place != FieldPlace::VERSION && !self.bracketed,
            _ => false,
        }
    }

    fn tos(&self, sign: Sign, value: u32) -> Primitive {
        let relation = Relation::Compare { mask: 3, sign, value };
        Primitive::Field { version: Version::V4, place: FieldPlace::TOS, relation }
    }

    fn ether(&self) -> Result<Primitive, Fault> {
        let Data::Ether(address) = self.data else { return self.fault("address missing") };
        let opposite = self.opposite()?;
        let mask = match self.mask {
            None => [0xff; 6],
            Some(Mask::Ether(mask)) => mask,
            Some(_) => return self.fault("bad mask"),
        };
        Ok(Primitive::Ether { ends: self.ends(), address, mask, opposite })
    }

    /// Returns true for `!=` and false for `==`. With any other sign, addresses cannot be compared, which is
    /// an error.
    fn opposite(&self) -> Result<bool, Fault> {
        match self.sign {
            Sign::Equal => Ok(false),
            Sign::NotEqual => Ok(true),
            _ => self.fault("operator not supported"),
        }
    }

    fn host(&self, kind: Kind, version: Version) -> Result<Primitive, Fault> {
        let (address, mask): (u128, u128) = match (kind, version, self.data) {
            (Kind::Host, Version::V4, Data::Host(address)) => (address.into(), u32::MAX.into()),
            (Kind::Net, Version::V4, Data::Net(address, mask)) => (address.into(), mask.into()),
            (Kind::Host, Version::V6, Data::Host6(address)) => (address, u128::MAX),
            (Kind::Net, Version::V6, Data::Net6(address, mask)) => (address, mask),
            _ => return self.fault("address missing"),
        };
        let opposite = self.opposite()?;
        let mask = match (self.mask, version) {
            (None, _) => mask,
            (Some(Mask::Number(mask) | Mask::Ip(mask)), Version::V4) => mask.into(),
            (Some(Mask::Ip6(mask)), Version::V6) => mask,
            (Some(_), _) => return self.fault("bad mask"),
        };
        Ok(Primitive::Host { version, ends: self.ends(), address, mask, opposite })
    }

    fn protocol(&mut self, version: Version, notes: &mut Notes) -> Result<Primitive, Fault> {
        let said = self.protocol.take();
        let protocol = match (self.data, said) {
            (Data::Number(number), Some(Protocol::Number(said))) if number == said.into() => number,
            (Data::Protocol(protocol), Some(said)) if protocol == said => {
                return self.set(version, said, notes);
            }
            (Data::Number(_) | Data::Protocol(_), Some(_)) => return self.fault("specified twice"),
            (Data::Number(number), None) => number,
            (Data::Protocol(protocol), None) | (Data::None, Some(protocol)) => {
                return self.set(version, protocol, notes);
            }
            _ => return self.fault("value missing"),
        };
        let relation = self.relation(0xff, protocol, notes)?;
        Ok(Primitive::ProtocolNumber { version, relation })
    }

    /// Returns the question for a protocol given by name. A name of a single protocol allows all signs and
    /// a mask, the name of a set of protocols only `==` and `!=`.
    fn set(&mut self, version: Version, protocol: Protocol, notes: &mut Notes) -> Result<Primitive, Fault> {
        let Protocol::Number(number) = protocol else {
            if self.mask.is_some() || !matches!(self.sign, Sign::Equal | Sign::NotEqual) {
                return Err(format!("'{protocol}': operator or mask not supported"));
            }
            let opposite = self.sign == Sign::NotEqual;
            return Ok(Primitive::ProtocolSet { version, protocol, opposite });
        };
        let relation = self.relation(0xff, number.into(), notes)?;
        Ok(Primitive::ProtocolNumber { version, relation })
    }

    /// Returns the relation of sign, mask and `number`, for a field whose largest number is `largest`. A
    /// comparison by `<`, `<=`, `>` or `>=` that is always true or always false becomes a constant, and adds
    /// a warning to `notes`.
    fn relation(&self, largest: u32, number: i128, notes: &mut Notes) -> Result<Relation, Fault> {
        let mask = match self.mask {
            None => largest,
            Some(Mask::Number(mask)) if mask & largest == mask => mask,
            Some(Mask::Number(_)) => {
                return self.too_large("mask ", format!("0x{largest:X}"));
            }
            Some(_) => return self.fault("bad mask"),
        };
        let Ok(value) = u32::try_from(number) else { return self.too_large("", largest) };
        let always = match self.sign {
            Sign::Equal | Sign::NotEqual if value > largest => {
                return self.too_large("", largest);
            }
            Sign::Equal | Sign::NotEqual => None,
            Sign::Less if value == 0 || value > mask => Some(value > mask),
            Sign::GreaterOrEqual if value == 0 || value > mask => Some(value == 0),
            Sign::Greater if value >= mask => Some(false),
            Sign::LessOrEqual if value >= mask => Some(true),
            _ => None,
        };
        let Some(always) = always else { return Ok(Relation::Compare { mask, sign: self.sign, value }) };
        let sign = match self.sign {
            Sign::Less => "<",
            Sign::GreaterOrEqual => ">=",
            Sign::Greater => ">",
            _ => "<=",
        };
        notes.push((format!("relation '{sign} {value}' is always {always} (range 0-{mask})"), true));
        Ok(Relation::Always(always))
    }
}
