//! The HTTP proxy of the settings, for calls and for media.
//!
//! HTTPS uses a CONNECT tunnel: the proxy sees host names and no credential. It sees the credentials of calls to an `http://` address.
//! Variables like `HTTPS_PROXY` are ignored: they may be meant for other programs, and would send calls to an unconfigured host.

use reqwest::{ClientBuilder, NoProxy, Proxy, Url};
use secrecy::{ExposeSecret, SecretString};

const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";
/// Variables by which other programs find a proxy.
const VARIABLES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Address at which no proxy can be. The text does not repeat it: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadProxy {
    #[error("it is not the address of an HTTP proxy: write it like http://proxy.example:3128")]
    Form,
    #[error("the proxy's address cannot be used")]
    Unusable,
}

/// Address of a proxy, perhaps with a user and a password.
#[derive(Debug, Clone)]
pub struct ProxyAddress(SecretString);

impl ProxyAddress {
    /// Reads the address; `None` if it is empty.
    pub fn read(address: &SecretString) -> Result<Option<Self>, BadProxy> {
        let text = address.expose_secret();
        if text.is_empty() {
            return Ok(None);
        }
        let is_proxy = |url: &Url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.path() == "/" && url.query().is_none()
        };
        match Url::parse(text) {
            Ok(url) if is_proxy(&url) => Ok(Some(Self(address.clone()))),
            _ => Err(BadProxy::Form),
        }
    }

    /// Proxy of all requests.
    pub fn for_all(&self) -> Result<Proxy, BadProxy> {
        Proxy::all(self.0.expose_secret()).map_err(|_| BadProxy::Unusable)
    }
}

/// Sends requests through the proxy, except to loopback addresses; without a proxy, through none.
pub fn with_proxy(client: ClientBuilder, proxy: Option<&ProxyAddress>) -> Result<ClientBuilder, BadProxy> {
    let Some(proxy) = proxy else { return Ok(client.no_proxy()) };
    Ok(client.proxy(proxy.for_all()?.no_proxy(NoProxy::from_string(LOOPBACK))))
}

/// First variable that names a proxy for other programs.
#[must_use]
pub fn ignored_variable() -> Option<&'static str> {
    VARIABLES.into_iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::providers::http::{HttpClient, HttpOptions};

    fn read(address: &str) -> Result<Option<ProxyAddress>, BadProxy> {
        ProxyAddress::read(&SecretString::from(address))
    }

    #[test]
    fn an_address_that_is_none_is_refused_and_not_repeated() {
        assert!(read("").unwrap().is_none());
        for good in ["http://proxy.example:3128", "http://user:canary@proxy.example:3128/", "https://proxy.example"] {
            assert!(read(good).unwrap().is_some(), "{good}");
        }
        for bad in ["proxy.example:3128", "socks5://canary@h:1", "http://", "http://canary@h/path", "\"http://h:1\""] {
            let why = read(bad).unwrap_err().to_string();
            assert!(why.contains("http://proxy.example:3128") && !why.contains("canary"), "{bad}: {why}");
        }
        assert!(!format!("{:?}", read("http://user:canary@h:1")).contains("canary"));
    }

    /// Lines of the first request that the proxy receives for `address`; `None` if it receives none.
    async fn first_proxy_request(address: &str) -> Option<Vec<String>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = read(&format!("http://user:pass@{}", listener.local_addr().unwrap())).unwrap();
        let http = HttpClient::new(&HttpOptions { proxy, ..HttpOptions::default() }).unwrap();
        let request = http.client().get(address).bearer_auth("canary").build().unwrap();
        let head = async {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            stream.write_all(b"HTTP/1.1 502 none\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            head
        };
        tokio::select! { head = head => Some(head), _ = http.send(request) => None }
    }

    #[tokio::test]
    async fn calls_use_the_proxy_and_https_is_tunneled() {
        let tunnel = first_proxy_request("https://api.example.test/2/tweets").await.unwrap();
        assert_eq!(tunnel[0], "CONNECT api.example.test:443 HTTP/1.1");
        assert!(
            tunnel.iter().any(|line| line.to_ascii_lowercase().starts_with("proxy-authorization: basic ")),
            "{tunnel:?}"
        );
        assert!(!tunnel.concat().contains("canary"), "{tunnel:?}");
        let plain = first_proxy_request("http://api.example.test/2/tweets").await.unwrap();
        assert_eq!(plain[0], "GET http://api.example.test/2/tweets HTTP/1.1");
        assert!(
            first_proxy_request("http://127.0.0.1:9/2/tweets").await.is_none(),
            "the simulator is reached without it"
        );
    }
}
