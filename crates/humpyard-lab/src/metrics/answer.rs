//! Answers, in the format that the client prefers.

use httparse::Request;

use super::document::Snapshot;
use super::open_metrics::{OPEN_METRICS, PLAIN, open_metrics, plain};

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// Whether the client asked for the head alone (HEAD).
    head: bool,
}

impl Answer {
    /// A snapshot as metrics, in the format that this request prefers.
    pub(super) fn metrics(snapshot: Snapshot, request: &Request<'_, '_>) -> Self {
        let text = open_metrics(snapshot);
        if prefers_open_metrics(request) { Self::of(OPEN_METRICS, text) } else { Self::of(PLAIN, plain(&text)) }
    }

    /// A snapshot as a document.
    pub(super) fn document(snapshot: &Snapshot) -> Self {
        // Its keys are strings and its numbers finite.
        Self::of("application/json", serde_json::to_string(snapshot).unwrap_or_default())
    }

    /// A status and a sentence.
    pub(super) fn said(status: &'static str, what: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{what}\n"), head: false }
    }

    /// Drops the body.
    pub(super) fn without_body(self) -> Self {
        Self { head: true, ..self }
    }

    fn of(content_type: &'static str, body: String) -> Self {
        Self { status: "200 OK", content_type, body, head: false }
    }

    /// As it is sent.
    pub(super) fn bytes(self) -> Vec<u8> {
        let Self { status, content_type, body, head } = self;
        let length = body.len();
        let start = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n"
        );
        let mut bytes = start.into_bytes();
        if !head {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

/// Whether the client names OpenMetrics 1.0 and does not prefer the text of Prometheus 0.0.4. Clients that do not name OpenMetrics
/// get the older text, which every tool reads: browsers, `promtool check metrics` behind `curl`, older scrapers.
fn prefers_open_metrics(request: &Request<'_, '_>) -> bool {
    let accept = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value).to_ascii_lowercase()).collect();
    let accepted: Vec<Accepted<'_>> = accept.iter().flat_map(|header| header.split(',')).map(Accepted::parse).collect();
    let quality = |name: &str, version: &str| {
        let of = accepted.iter().filter(|of| of.name == name && of.version.is_none_or(|of| of == version));
        of.map(|accepted| accepted.quality).fold(0.0, f64::max)
    };
    let open_metrics = quality("application/openmetrics-text", "1.0.0");
    open_metrics > 0.0 && open_metrics >= quality("text/plain", "0.0.4")
}

/// One of the formats that somebody accepts.
struct Accepted<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// How much it is liked: 0 (not at all) to 1.
    quality: f64,
}

impl<'a> Accepted<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut accepted = Self { name: parts.next().unwrap_or_default(), version: None, quality: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "version" => accepted.version = Some(value.trim().trim_matches('"')),
                "q" => accepted.quality = value.trim().parse().unwrap_or(0.0),
                _ => {}
            }
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(accept: &str) -> bool {
        let text = format!("GET /metrics HTTP/1.1\r\n{accept}{}\r\n", if accept.is_empty() { "" } else { "\r\n" });
        let mut headers = [httparse::EMPTY_HEADER; 8];
        let mut request = Request::new(&mut headers);
        assert!(request.parse(text.as_bytes()).unwrap().is_complete());
        prefers_open_metrics(&request)
    }

    /// The headers of curl, a browser, Prometheus 2.42 and 3.0, and Prometheus configured to scrape text.
    #[test]
    fn who_asks_gets_the_text_that_it_prefers() {
        for (accept, open_metrics) in [
            ("", false),
            ("Accept: */*", false),
            ("accept: text/plain", false),
            ("Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", false),
            (
                "Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                true,
            ),
            (
                "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                true,
            ),
            ("Accept: text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false),
            ("Accept: text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5", false),
            ("Accept: application/openmetrics-text; version=\"1.0.0\"", true),
            ("Accept: application/openmetrics-text;version=0.0.1", false),
            ("Accept: application/openmetrics-text;q=0", false),
            ("Accept: text/plain;q=0.5\r\nAccept: application/openmetrics-text", true),
        ] {
            assert_eq!(prefers(accept), open_metrics, "{accept}");
        }
    }
}
