//! Check of OAuth 1.0a signatures (RFC 5849, 3.2) with another library than the client's, so that mistakes are not repeated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use ring::hmac;

use super::call::Call;

/// The decoded parameters of a signature: from an `Authorization: OAuth …` header, a query or a form.
pub struct Signature {
    parameters: Vec<(String, String)>,
}

impl Signature {
    pub fn parse(header: &str) -> Option<Self> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let pair = |pair: &str| {
            let (name, value) = pair.trim().split_once('=')?;
            Some((decode(name)?, decode(value.strip_prefix('"')?.strip_suffix('"')?)?))
        };
        let parameters = header.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect::<Option<_>>()?;
        Some(Self { parameters })
    }

    /// The signature among a call's own parameters; `None` if there is none.
    pub fn find_in(parameters: &[(String, String)]) -> Option<Self> {
        let own: Vec<_> = parameters.iter().filter(|(name, _)| is_own(name)).cloned().collect();
        own.iter().any(|(name, _)| name == "oauth_signature").then_some(Self { parameters: own })
    }

    /// `oauth_<name>`; empty if it is missing.
    pub fn get(&self, name: &str) -> &str {
        let named = |known: &str| known.strip_prefix("oauth_") == Some(name);
        self.parameters.iter().find(|(known, _)| named(known)).map_or("", |(_, value)| value)
    }

    pub fn is_valid_for(&self, call: &Call, consumer_secret: &str, token_secret: &str) -> bool {
        let Ok(signature) = STANDARD.decode(self.get("signature")) else { return false };
        let known_form = self.get("signature_method") == "HMAC-SHA1" && matches!(self.get("version"), "" | "1.0");
        let base = self.base_string(&call.method, &call.address, &call.parameters);
        known_form && hmac::verify(&key(consumer_secret, token_secret), base.as_bytes(), &signature).is_ok()
    }

    /// RFC 5849, 3.4.1.
    fn base_string(&self, method: &str, address: &str, parameters: &[(String, String)]) -> String {
        let own = self.parameters.iter().filter(|(name, _)| !matches!(&**name, "oauth_signature" | "realm"));
        // The signature's parameters in a query or a form are among the call's, too, and are signed once.
        let others = parameters.iter().filter(|(name, _)| !is_own(name));
        let mut all: Vec<_> = others.chain(own).map(|(name, value)| (encode(name), encode(value))).collect();
        all.sort();
        let all: Vec<_> = all.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}&{}&{}", method.to_uppercase(), encode(address), encode(&all.join("&")))
    }
}

fn is_own(name: &str) -> bool {
    name.starts_with("oauth_")
}

/// RFC 5849, 3.4.2.
fn key(consumer_secret: &str, token_secret: &str) -> hmac::Key {
    let key = format!("{}&{}", encode(consumer_secret), encode(token_secret));
    hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes())
}

/// RFC 5849, 3.6.
fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pairs(value: &Value) -> Vec<(String, String)> {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn header(vector: &Value) -> String {
        let mut sent = pairs(&vector["oauth_params"]);
        sent.push(("oauth_signature".into(), vector["signature"].as_str().unwrap_or_default().into()));
        sent.iter().map(|(name, value)| format!("{}=\"{}\", ", encode(name), encode(value))).collect()
    }

    #[test]
    fn the_published_signatures_are_good_and_no_others() {
        let published_vectors: Value =
            serde_json::from_str(include_str!("../../engine/tests/oauth1-vectors.json")).unwrap();
        let text = |vector: &Value, name: &str| vector[name].as_str().unwrap().to_owned();
        for vector in published_vectors["signatures"].as_array().unwrap() {
            let signature = Signature::parse(&header(vector)).unwrap();
            let call = |method: &str| Call {
                method: method.to_owned(),
                address: text(vector, "url"),
                authorization: None,
                parameters: pairs(&vector["request_params"]),
            };
            let method = text(vector, "method");
            let base = signature.base_string(&method, &text(vector, "url"), &pairs(&vector["request_params"]));
            assert_eq!(base, text(vector, "base_string"));
            let (consumer, token) = (text(vector, "consumer_secret"), text(vector, "token_secret"));
            assert!(signature.is_valid_for(&call(&method), &consumer, &token));
            assert!(!signature.is_valid_for(&call("PUT"), &consumer, &token));
            assert!(!signature.is_valid_for(&call(&method), &consumer, "other"));
            assert!(!signature.is_valid_for(&call(&method), "other", &token));
        }
        let rfc = &published_vectors["base_string_rfc5849_3_4_1_1"];
        let signature = Signature::parse(&header(rfc)).unwrap();
        let base = signature.base_string(&text(rfc, "method"), &text(rfc, "url"), &pairs(&rfc["request_params"]));
        assert_eq!(base, text(rfc, "base_string"));
        for vector in published_vectors["hmac_only"].as_array().unwrap() {
            let key = key(&text(vector, "consumer_secret"), &text(vector, "token_secret"));
            let tag = hmac::sign(&key, text(vector, "base_string").as_bytes());
            assert_eq!(STANDARD.encode(tag), text(vector, "signature"));
        }
        for (bare, encoded) in pairs(&published_vectors["percent_encoding"]) {
            assert_eq!(encode(&bare), encoded);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for bad in ["oauth_token", "oauth_token=bare", "oauth_token=\"open", "oauth_token=\"%FF\""] {
            assert!(Signature::parse(bad).is_none(), "{bad}");
        }
    }
}
