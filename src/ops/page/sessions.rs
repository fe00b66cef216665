//! Sessions: browsers from which the token came.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

use crate::base::clock::Stopwatch;

/// The cookie that stands for the token, and how long it does.
const COOKIE_NAME: &str = "twitter-updater-session";
const SESSION: Duration = Duration::from_secs(8 * 3_600);
/// Sessions at a time; of more, the oldest ends.
const SESSIONS: usize = 256;

/// Browsers from which the token came.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Stopwatch>>);

impl Sessions {
    /// Whether one of its cookies is that of a session.
    pub fn knows(&self, headers: &HeaderMap) -> bool {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, since| since.elapsed() < SESSION);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut own = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='));
        own.any(|name| sessions.contains_key(name))
    }

    /// A new one, as a cookie that no script reads and no other site's page sends.
    pub fn begin(&self) -> Option<HeaderValue> {
        let mut name = [0; 24];
        SystemRandom::new().fill(&mut name).ok()?;
        let name = BASE64_URL_SAFE_NO_PAD.encode(name);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS {
            let oldest = sessions.iter().max_by_key(|(_, since)| since.elapsed()).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        let cookie = format!("{COOKIE_NAME}={name}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", SESSION.as_secs());
        sessions.insert(name, Stopwatch::start());
        HeaderValue::from_str(&cookie).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_a_cookie_that_nobody_guesses() {
        let sessions = Sessions::default();
        let cookie = sessions.begin().unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let named = cookie.split(';').next().unwrap();
        let sent = |text: &str| HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(text).unwrap())]);
        assert!(sessions.knows(&sent(named)) && sessions.knows(&sent(&format!("a=b; {named}"))));
        for wrong in ["", COOKIE_NAME, &format!("{COOKIE_NAME}="), &named[..named.len() - 1], &format!("x{named}")] {
            assert!(!sessions.knows(&sent(wrong)), "{wrong}");
        }
        for _ in 0..SESSIONS {
            sessions.begin().unwrap();
        }
        assert!(!sessions.knows(&sent(named)), "the oldest ends");
    }
}
