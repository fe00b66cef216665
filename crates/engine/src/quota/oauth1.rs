//! OAuth 1.0a (RFC 5849): the `Authorization` header of a signed request, HMAC-SHA1.

use std::fmt;
use std::num::NonZeroU64;

use oauth1_request::request::AssertSorted;
use oauth1_request::serializer::auth::{Authorizer, Options};
use oauth1_request::signature_method::{HMAC_SHA1, SignatureMethod};
use oauth1_request::{Credentials, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

use crate::base::clock::Millis;

/// Characters that RFC 3986's encoding leaves unchanged, besides letters and digits.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone)]
pub struct UserKeys {
    pub consumer_key: SecretString,
    pub consumer_secret: SecretString,
    pub token: SecretString,
    pub token_secret: SecretString,
}

impl fmt::Debug for UserKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKeys")
    }
}

/// Nonce and timestamp. They make each signature unique.
#[derive(Debug, Clone)]
pub struct Stamp {
    nonce: String,
    timestamp: NonZeroU64,
    /// True if `oauth_version` is sent. The RFC makes it optional; the API's documentation sends it.
    version: bool,
}

impl Stamp {
    /// A stamp for a request at `now`, ms since the epoch by the API's clock.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        let seconds = u64::try_from(now / 1000).ok().and_then(NonZeroU64::new);
        Self {
            // 128 random bits: two equal ones in the same second are not to be expected.
            nonce: format!("{:032x}", rand::random::<u128>()),
            // The RFC requires a positive number. The API reports a clock before 1970.
            timestamp: seconds.unwrap_or(NonZeroU64::MIN),
            version: true,
        }
    }
}

/// The header of a request: `OAuth oauth_consumer_key="…", …`. `address` has no query and no fragment. `parameters` are the
/// decoded ones of the query and of a form body.
#[must_use]
pub fn authorization(
    keys: &UserKeys,
    stamp: &Stamp,
    method: &str,
    address: &str,
    parameters: Vec<(String, String)>,
) -> SecretString {
    sign(HMAC_SHA1, keys, stamp, method, address, parameters).into()
}

fn sign(
    how: impl SignatureMethod,
    keys: &UserKeys,
    stamp: &Stamp,
    method: &str,
    address: &str,
    mut parameters: Vec<(String, String)>,
) -> String {
    // RFC 5849, 3.4.1.3.2: by encoded name, then by encoded value.
    parameters.sort_by_cached_key(|(name, value)| (percent_encode(name), percent_encode(value)));
    // The serializer encodes values twice (as a parameter, and inside the base string) but does not encode names. This
    // line encodes the names twice too. The order stays: an encoded character begins with `%` after each encoding.
    let parameters: Vec<_> =
        parameters.into_iter().map(|(name, value)| (percent_encode(&percent_encode(&name)), value)).collect();
    let pair = |key, secret| Credentials::new(SecretString::expose_secret(key), SecretString::expose_secret(secret));
    let mut options = Options::new();
    options.nonce(&*stamp.nonce).timestamp(stamp.timestamp).version(stamp.version);
    let serializer = Authorizer::authorization(
        method,
        address,
        pair(&keys.consumer_key, &keys.consumer_secret),
        Some(pair(&keys.token, &keys.token_secret)),
        &options,
        how,
    );
    AssertSorted::new(parameters.iter().map(|(name, value)| (name, value))).serialize(serializer)
}

/// RFC 3986's percent-encoding: upper-case hex; letters, digits and `-._~` stay unchanged.
pub(super) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Published signatures; each names its source.
#[cfg(test)]
pub(super) fn published_vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("../../tests/oauth1-vectors.json")).unwrap()
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use oauth1_request::signature_method::Sign;
    use serde_json::Value;

    use super::*;

    /// "Signs" with the base string itself, to compare it.
    struct BaseString;
    struct Base(String);

    impl SignatureMethod for BaseString {
        type Sign = Base;

        fn sign_with(self, _: &str, _: Option<&str>) -> Base {
            Base(String::new())
        }
    }

    impl Sign for Base {
        type Signature = String;

        fn get_signature_method_name(&self) -> &'static str {
            "HMAC-SHA1"
        }
        fn request_method(&mut self, method: &str) {
            self.0 += &format!("{method}&");
        }
        fn uri<T: Display>(&mut self, uri: T) {
            self.0 += &format!("{uri}&");
        }
        fn parameter<V: Display>(&mut self, key: &str, value: V) {
            self.0 += &format!("{key}%3D{value}");
        }
        fn delimiter(&mut self) {
            self.0 += "%26";
        }
        fn end(self) -> String {
            self.0
        }
    }

    struct Vector<'a>(&'a Value);

    impl Vector<'_> {
        fn text(&self, name: &str) -> &str {
            self.0[name].as_str().unwrap_or_default()
        }

        fn oauth(&self, name: &str) -> Option<&str> {
            let pairs = self.0["oauth_params"].as_array().unwrap();
            pairs.iter().find(|pair| pair[0] == format!("oauth_{name}")).map(|pair| pair[1].as_str().unwrap())
        }

        fn signed(&self, how: impl SignatureMethod) -> String {
            let oauth = |name| self.oauth(name).unwrap();
            let keys = UserKeys {
                consumer_key: oauth("consumer_key").into(),
                consumer_secret: self.text("consumer_secret").into(),
                token: oauth("token").into(),
                token_secret: self.text("token_secret").into(),
            };
            let stamp = Stamp {
                nonce: oauth("nonce").to_owned(),
                timestamp: oauth("timestamp").parse().unwrap(),
                version: self.oauth("version").is_some(),
            };
            let parameters = serde_json::from_value(self.0["request_params"].clone()).unwrap();
            sign(how, &keys, &stamp, self.text("method"), self.text("url"), parameters)
        }
    }

    fn signature(header: &str) -> &str {
        header.rsplit_once("oauth_signature=\"").unwrap().1.trim_end_matches('"')
    }

    #[test]
    fn the_published_signatures_and_base_strings() {
        let published_vectors = published_vectors();
        let signatures = published_vectors["signatures"].as_array().unwrap();
        assert!(signatures.len() >= 6);
        for vector in signatures.iter().map(Vector) {
            let source = vector.text("source");
            let header = vector.signed(HMAC_SHA1);
            assert_eq!(signature(&header), percent_encode(vector.text("signature")), "{source}");
            for pair in vector.0["oauth_params"].as_array().unwrap() {
                let sent = format!("{}=\"{}\"", pair[0].as_str().unwrap(), percent_encode(pair[1].as_str().unwrap()));
                assert!(header.contains(&sent), "{source}: {sent} is not in {header}");
            }
            assert_eq!(signature(&vector.signed(BaseString)), vector.text("base_string"), "{source}");
        }
        // With names to encode, empty values and a name that comes twice.
        let rfc = Vector(&published_vectors["base_string_rfc5849_3_4_1_1"]);
        assert_eq!(signature(&rfc.signed(BaseString)), rfc.text("base_string"));
    }

    #[test]
    fn the_published_percent_encodings() {
        let published_vectors = published_vectors();
        let pairs: Vec<(String, String)> =
            serde_json::from_value(published_vectors["percent_encoding"].clone()).unwrap();
        assert!(pairs.len() >= 14);
        let key = || SecretString::from("k");
        let keys = UserKeys { consumer_key: key(), consumer_secret: key(), token: key(), token_secret: key() };
        for (bare, wanted) in pairs {
            assert_eq!(percent_encode(&bare), wanted);
            // `x` sorts it after every `oauth_…`.
            let parameters = vec![(format!("x{bare}"), bare)];
            let header = sign(BaseString, &keys, &Stamp::at(1_000), "GET", "http://h/", parameters);
            let twice = wanted.replace('%', "%25");
            assert!(signature(&header).ends_with(&format!("%26x{twice}%3D{twice}")), "{header}");
        }
    }

    #[test]
    fn no_two_stamps_are_alike_and_the_clock_is_in_seconds() {
        let (one, two) = (Stamp::at(1_318_622_958_999), Stamp::at(1_318_622_958_999));
        assert_ne!(one.nonce, two.nonce);
        assert_eq!((one.timestamp.get(), one.nonce.len()), (1_318_622_958, 32));
        assert_eq!(Stamp::at(-5).timestamp.get(), 1);
    }
}
