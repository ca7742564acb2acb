//! The requests that are answered at all.
//!
//! A page of another site can make a browser send requests to the loopback address. With DNS rebinding, the
//! name of that site even leads to this server, so that the page may read the answers. Both show in the
//! headers: `Host` has the name of the other site, or `Origin` and `Sec-Fetch-Site` name the origin of the
//! page. Such requests are refused, also if they only read.

use std::fs;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Uri};

use crate::token::Token;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The rules by which requests are refused.
pub(crate) struct Guard {
    /// The names of this host. Addresses are accepted without being listed, because a name is what DNS
    /// rebinding needs.
    names: Vec<String>,
    /// The token for writes; `None` if nothing can be written.
    token: Option<Token>,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no header `Host`, or more than one (RFC 9112, section 3.2).
    Malformed,
    /// The request is for another host, by its target or by the header `Host`.
    Host,
    /// A page of another origin has sent the request.
    Origin,
    /// Nothing can be written, because the run was started without a token.
    ReadOnly,
    /// The request has no token, or a wrong token.
    Token,
}

impl Guard {
    /// Makes the rules for a server that clients know by these names, and by `localhost` and the name of the
    /// machine.
    pub(crate) fn new(names: &[String], token: Option<Token>) -> Guard {
        let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = ["localhost", machine.trim()].map(str::to_string);
        let names = names.iter().cloned().chain(own).map(|name| name.to_ascii_lowercase());
        Guard { names: names.filter(|name| !name.is_empty()).collect(), token }
    }

    /// True if handlers can be written with a token.
    pub(crate) fn can_write(&self) -> bool {
        self.token.is_some()
    }

    /// Checks the target and the headers of any request. A host in the target counts in place of the header
    /// `Host` (RFC 9112, section 3.2.2).
    ///
    /// # Errors
    /// If the request is malformed, is for another host, or comes from a page of another origin.
    pub(crate) fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Malformed) };
        let host = match target.authority() {
            Some(authority) => authority.as_str(),
            None => host.to_str().map_err(|_| Refusal::Host)?,
        };
        let name = name_of(host).ok_or(Refusal::Host)?;
        let is_own = || self.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        if name.parse::<IpAddr>().is_err() && !is_own() {
            return Err(Refusal::Host);
        }
        for origin in headers.get_all(ORIGIN) {
            let same = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            if !same.is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
                return Err(Refusal::Origin);
            }
        }
        let of = |name: HeaderName| headers.get(name).map(|value| value.as_bytes());
        match (of(SEC_FETCH_SITE), of(SEC_FETCH_MODE)) {
            // Nothing is said, the user has typed the address, or a page of this server asks.
            (None | Some(b"none" | b"same-origin"), _) => Ok(()),
            // A link on another page leads here; the other page cannot read what is shown.
            (_, Some(b"navigate")) => Ok(()),
            _ => Err(Refusal::Origin),
        }
    }

    /// Checks that a request may write handlers.
    ///
    /// # Errors
    /// If nothing can be written, or the request has not the right token.
    pub(crate) fn check_write(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = self.token.as_ref().ok_or(Refusal::ReadOnly)?;
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|text| text.split_once(' '));
        match given {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case("bearer") && token.is(given.trim()) => {
                Ok(())
            }
            _ => Err(Refusal::Token),
        }
    }
}

/// Returns the host of a header `Host`, without the port and the brackets of an IPv6 address. Returns `None`
/// if the header has another form.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
    (!name.is_empty() && is_port(port)).then_some(name)
}

fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let guard = Guard::new(&["gw.example.org".into()], None);
        let check = |given: &[(&str, &str)]| guard.check(&Uri::from_static("/"), &headers(given));
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:9464",
            "[::1]:1",
            "[::1]",
            "10.1.2.3",
            "GW.example.org:1",
        ] {
            assert_eq!(check(&[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            ":80",
            "localhost:x",
            "[::1",
        ] {
            assert_eq!(check(&[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(check(&[]), Err(Refusal::Malformed));
        assert_eq!(check(&[("host", "localhost"), ("host", "localhost")]), Err(Refusal::Malformed));
        let target = |target| guard.check(&Uri::from_static(target), &headers(&[("host", "localhost")]));
        assert_eq!(target("http://evil.example/"), Err(Refusal::Host));
        assert_eq!(target("http://localhost:9464/"), Ok(()));
        let local = ("host", "localhost:80");
        assert_eq!(check(&[local, ("origin", "http://localhost:80")]), Ok(()));
        for origin in
            ["http://evil.example", "null", "https://localhost:80", "http://localhost", "http://localhost:81"]
        {
            assert_eq!(check(&[local, ("origin", origin)]), Err(Refusal::Origin), "{origin}");
        }
        assert_eq!(check(&[local, ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")]), Ok(()));
        assert_eq!(check(&[local, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]), Ok(()));
        for site in ["cross-site", "same-site", "?"] {
            let mode = ("sec-fetch-mode", "no-cors");
            assert_eq!(check(&[local, ("sec-fetch-site", site), mode]), Err(Refusal::Origin), "{site}");
        }
    }

    #[test]
    fn nothing_is_written_without_a_token() {
        let guard = Guard::new(&[], None);
        let given = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert_eq!(guard.check_write(&given), Err(Refusal::ReadOnly));
    }
}
