//! Sessions of browsers that sent the token.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

use engine::base::clock::Stopwatch;
use engine::base::token::Generation;

const COOKIE_NAME: &str = "twitter-updater-session";
/// Its name behind TLS. Browsers accept this name only from the host itself, over TLS.
const SECURE_COOKIE_NAME: &str = "__Host-twitter-updater-session";
const SESSION_LENGTH: Duration = Duration::from_secs(8 * 3_600);
/// Maximum number of sessions; a further one ends the oldest.
const MAX_SESSIONS: usize = 256;

/// Open sessions. A session ends with its token.
#[derive(Debug)]
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Session>>,
    behind_tls: bool,
}

#[derive(Debug)]
struct Session {
    since: Stopwatch,
    token: Generation,
}

impl Sessions {
    pub fn new(behind_tls: bool) -> Self {
        Self { open: Mutex::default(), behind_tls }
    }

    /// Returns true if a cookie names a session of this token.
    pub fn has_session(&self, headers: &HeaderMap, token: Generation) -> bool {
        let mut sessions = self.lock_sessions();
        sessions.retain(|_, session| session.since.elapsed() < SESSION_LENGTH && session.token == token);
        self.session_names(headers).any(|name| sessions.contains_key(name))
    }

    /// Starts a session and returns its cookie. No script can read it, and no other site's page can send it.
    pub fn begin(&self, token: Generation) -> Option<HeaderValue> {
        let mut name = [0; 24];
        SystemRandom::new().fill(&mut name).ok()?;
        let name = BASE64_URL_SAFE_NO_PAD.encode(name);
        let mut sessions = self.lock_sessions();
        if sessions.len() >= MAX_SESSIONS {
            let oldest =
                sessions.iter().max_by_key(|(_, session)| session.since.elapsed()).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        let cookie = HeaderValue::from_str(&self.cookie(&name, SESSION_LENGTH));
        sessions.insert(name, Session { since: Stopwatch::start(), token });
        cookie.ok()
    }

    /// Ends the session of its cookies. Returns true if there was one.
    pub fn end(&self, headers: &HeaderMap) -> bool {
        let mut sessions = self.lock_sessions();
        self.session_names(headers).filter(|name| sessions.remove(*name).is_some()).count() > 0
    }

    /// Returns a cookie that makes a browser forget its session.
    pub fn expired_cookie(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.cookie("", Duration::ZERO)).ok()
    }

    fn lock_sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cookie_name(&self) -> &'static str {
        if self.behind_tls { SECURE_COOKIE_NAME } else { COOKIE_NAME }
    }

    fn cookie(&self, value: &str, age: Duration) -> String {
        let secure = if self.behind_tls { "; Secure" } else { "" };
        let name = self.cookie_name();
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs())
    }

    fn session_names<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let cookies = cookies.flat_map(|cookies| cookies.split(';'));
        cookies.filter_map(move |cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use engine::base::token::AccessToken;

    fn sent(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(text).unwrap())])
    }

    fn begin(sessions: &Sessions, token: Generation) -> (String, String) {
        let cookie = sessions.begin(token).unwrap().to_str().unwrap().to_owned();
        (cookie.split(';').next().unwrap().to_owned(), cookie)
    }

    #[test]
    fn a_session_is_a_cookie_that_cannot_be_guessed() {
        let (sessions, token) = (Sessions::new(false), AccessToken::new(&SecretString::from("token")).generation());
        let (named, cookie) = begin(&sessions, token);
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let knows = |text: &str| sessions.has_session(&sent(text), token);
        assert!(knows(&named) && knows(&format!("a=b; {named}")));
        for wrong in ["", COOKIE_NAME, &format!("{COOKIE_NAME}="), &named[..named.len() - 1], &format!("x{named}")] {
            assert!(!knows(wrong), "{wrong}");
        }
        for _ in 0..MAX_SESSIONS {
            sessions.begin(token).unwrap();
        }
        assert!(!knows(&named), "the oldest ends");
    }

    #[test]
    fn a_session_ends_with_its_token_or_with_a_logout() {
        let (sessions, token) = (Sessions::new(true), AccessToken::new(&SecretString::from("old")));
        let [(one, cookie), (other, _)] = [(); 2].map(|()| begin(&sessions, token.generation()));
        assert!(
            cookie.starts_with("__Host-") && cookie.ends_with("; Secure") && cookie.contains("Path=/;"),
            "{cookie}"
        );
        assert!(sessions.end(&sent(&one)) && !sessions.end(&sent(&one)));
        assert!(
            !sessions.has_session(&sent(&one), token.generation())
                && sessions.has_session(&sent(&other), token.generation())
        );
        assert!(!sessions.has_session(&sent(other.trim_start_matches("__Host-")), token.generation()));
        token.replace(&SecretString::from("new"));
        assert!(!sessions.has_session(&sent(&other), token.generation()));
    }
}
