//! Access control: the caller, and its rights.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::call::Call;
use super::dialect::Dialect;
use super::options::{SimulatedCredential, SimulatedKeys, SimulatorOptions};
use super::signature::Signature;
use super::windows::Pool;
use engine::base::clock::Millis;

/// Tolerance for a signature's timestamp in both directions, s.
const TIMESTAMP_S: Millis = 5 * 60;

/// The state of a credential. In JSON: `"revoked"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    #[default]
    Good,
    /// 401 code 89, and 403 code 99 to an application that requests a token. An application's earlier token stays invalid when
    /// the credential is good again.
    Revoked,
    /// Its account is locked until its owner logs in: 403 code 326.
    Locked,
    Suspended,
}

#[derive(Debug)]
pub struct Caller {
    pub name: String,
    pub pool: Pool,
}

/// An error: the HTTP status and Twitter's code.
pub type Rejection = (u16, u32);

/// Admits calls, or rejects them. Without configured tokens and credentials it admits all.
#[derive(Debug)]
pub struct Gate {
    /// True if Mastodon and Bluesky admit callers without a credential.
    public: bool,
    bearer_tokens: Option<Vec<SecretString>>,
    credentials: Option<Vec<SimulatedCredential>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    standings: HashMap<String, Standing>,
    revocations: HashMap<String, u32>,
    /// Timestamp (s), token and nonce of earlier signatures, as far back as a signature could be repeated.
    used_nonces: BTreeSet<(Millis, String, String)>,
}

impl Gate {
    pub fn new(options: &mut SimulatorOptions) -> Self {
        let (bearer_tokens, credentials) = (options.bearer_tokens.take(), options.credentials.take());
        Self { public: options.public, bearer_tokens, credentials, state: Mutex::default() }
    }

    /// Switches a credential; `false` if none has that name.
    pub fn set(&self, name: &str, standing: Standing) -> bool {
        if !self.configured_credentials().any(|known| known.name == name) {
            return false;
        }
        let mut state = self.state();
        let before = state.standings.insert(name.to_owned(), standing);
        if standing == Standing::Revoked && before != Some(Standing::Revoked) {
            *state.revocations.entry(name.to_owned()).or_default() += 1;
        }
        true
    }

    pub fn standings(&self) -> BTreeMap<String, Standing> {
        let state = self.state();
        let standing = |known: &SimulatedCredential| state.standings.get(&known.name).copied().unwrap_or_default();
        self.configured_credentials().map(|known| (known.name.clone(), standing(known))).collect()
    }

    /// Finds the caller. `now` is in ms since the epoch.
    pub fn admit(&self, call: &Call, now: Millis) -> Result<Caller, Rejection> {
        let of = |pool| move |name| Caller { name, pool };
        let Some(sent) = &call.authorization else {
            if let Some(signature) = Signature::find_in(&call.parameters) {
                return self.check_signature(&signature, call, now).map(of(Pool::Users));
            }
            let is_public = self.public && matches!(call.dialect(), Dialect::Mastodon | Dialect::Bluesky);
            let is_let_in = is_public || self.is_open();
            return if is_let_in { Ok(of(Pool::Users)("anonymous".to_owned())) } else { Err((400, 215)) };
        };
        match sent.split_once(' ') {
            Some(("Bearer", token)) => self.check_bearer(token).map(of(Pool::Applications)),
            Some(("OAuth", header)) => {
                let signature = Signature::parse(header).ok_or((400, 215))?;
                self.check_signature(&signature, call, now).map(of(Pool::Users))
            }
            _ if self.is_open() => Ok(of(Pool::Users)(sent.clone())),
            _ => Err((400, 215)),
        }
    }

    pub fn exchange_keys(&self, call: &Call) -> Result<String, Rejection> {
        let wrong = (403, 99);
        let sent = call.authorization.as_deref().and_then(|sent| sent.strip_prefix("Basic ")).ok_or(wrong)?;
        let pair = STANDARD.decode(sent).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(wrong)?;
        let (key, secret) = pair.split_once(':').ok_or(wrong)?;
        let decode = |half| percent_decode_str(half).decode_utf8_lossy().into_owned();
        let (key, secret) = (decode(key), decode(secret));
        if call.parameter("grant_type") != Some("client_credentials") {
            return Err((403, 170));
        }
        if self.is_open() {
            return Ok(app_token(&key, &secret, 0));
        }
        let known =
            self.applications().find(|(_, known_key, known_secret)| *known_key == key && *known_secret == secret);
        let (name, ..) = known.ok_or(wrong)?;
        match self.standing(name) {
            Standing::Revoked => Err(wrong),
            _ => Ok(app_token(&key, &secret, self.revocations(name))),
        }
    }

    fn check_bearer(&self, sent: &str) -> Result<String, Rejection> {
        if self.is_open() || self.bearer_tokens.iter().flatten().any(|known| known.expose_secret() == sent) {
            return Ok(sent.to_owned());
        }
        let issued = |(name, key, secret): &(&str, &str, &str)| app_token(key, secret, self.revocations(name)) == sent;
        let (name, ..) = self.applications().find(issued).ok_or((401, 89))?;
        self.standing(name).admits().map(|()| format!("app {name}"))
    }

    fn check_signature(&self, signature: &Signature, call: &Call, now: Millis) -> Result<String, Rejection> {
        let could_not_authenticate = (401, 32);
        let sent = signature.get("token");
        if self.is_open() {
            return Ok(format!("user {sent}"));
        }
        if self.credentials.is_none() {
            // No key is known, so no signature can be right.
            return Err(could_not_authenticate);
        }
        let user = self.configured_credentials().find_map(|known| match &known.keys {
            SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret }
                if token.expose_secret() == sent =>
            {
                Some((&known.name, consumer_key, consumer_secret, token_secret))
            }
            _ => None,
        });
        let (name, consumer_key, consumer_secret, token_secret) = user.ok_or((401, 89))?;
        let timestamp: Millis = signature.get("timestamp").parse().map_err(|_| could_not_authenticate)?;
        let now_s = now.div_euclid(1000);
        if timestamp.abs_diff(now_s) > TIMESTAMP_S.unsigned_abs() {
            return Err((401, 135));
        }
        let nonce = signature.get("nonce");
        if nonce.is_empty()
            || consumer_key.expose_secret() != signature.get("consumer_key")
            || !signature.is_valid_for(call, consumer_secret.expose_secret(), token_secret.expose_secret())
            || !self.is_new_nonce(timestamp, sent, nonce, now_s)
        {
            return Err(could_not_authenticate);
        }
        self.standing(name).admits().map(|()| format!("user {name}"))
    }

    /// Remembers a nonce; `false` if it was used before.
    fn is_new_nonce(&self, timestamp: Millis, token: &str, nonce: &str, now_s: Millis) -> bool {
        let used_nonces = &mut self.state().used_nonces;
        // Signatures with an older timestamp are rejected for it.
        *used_nonces = used_nonces.split_off(&(now_s - TIMESTAMP_S, String::new(), String::new()));
        used_nonces.insert((timestamp, token.to_owned(), nonce.to_owned()))
    }

    fn is_open(&self) -> bool {
        self.bearer_tokens.is_none() && self.credentials.is_none()
    }

    fn configured_credentials(&self) -> impl Iterator<Item = &SimulatedCredential> {
        self.credentials.iter().flatten()
    }

    fn applications(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.configured_credentials().filter_map(|known| match &known.keys {
            SimulatedKeys::App { consumer_key, consumer_secret } => {
                Some((&*known.name, consumer_key.expose_secret(), consumer_secret.expose_secret()))
            }
            SimulatedKeys::User { .. } => None,
        })
    }

    /// State of the credential of that name; [`Standing::Good`] unless a test changed it.
    fn standing(&self, name: &str) -> Standing {
        self.state().standings.get(name).copied().unwrap_or_default()
    }

    fn revocations(&self, name: &str) -> u32 {
        self.state().revocations.get(name).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn admits(self) -> Result<(), Rejection> {
        match self {
            Self::Good => Ok(()),
            Self::Revoked => Err((401, 89)),
            Self::Locked => Err((403, 326)),
            Self::Suspended => Err((403, 64)),
        }
    }
}

/// Token of an application: the same until it is revoked. Like real tokens, it has a percent sign.
fn app_token(key: &str, secret: &str, revocations: u32) -> String {
    let key_of_tokens = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key_of_tokens, format!("{revocations} {key}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("AAAAAAAAAAAAAAAAAAAAA{hex}%3D")
}
