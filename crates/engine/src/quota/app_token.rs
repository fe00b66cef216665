//! App-only credentials: bearer tokens in exchange for an application's keys, kept in the process.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

use super::oauth1::percent_encode;

/// An application's keys and their last bearer token. The API returns the same token until it is invalidated.
pub struct AppToken {
    pub consumer_key: SecretString,
    pub consumer_secret: SecretString,
    /// Locked during an exchange: other callers wait for its token and make no exchange of their own.
    token: Mutex<Option<SecretString>>,
}

impl AppToken {
    #[must_use]
    pub fn new(consumer_key: SecretString, consumer_secret: SecretString) -> Self {
        Self { consumer_key, consumer_secret, token: Mutex::default() }
    }

    /// The `Authorization` header of the exchange: `Basic …`. Key and secret are percent-encoded first.
    #[must_use]
    pub fn basic_header(&self) -> SecretString {
        let half = |secret: &SecretString| percent_encode(secret.expose_secret());
        let pair = format!("{}:{}", half(&self.consumer_key), half(&self.consumer_secret));
        format!("Basic {}", STANDARD.encode(pair)).into()
    }

    /// Returns the kept token, else the result of `exchange`. A failed exchange leaves nothing behind.
    pub async fn get<E>(
        &self,
        exchange: impl AsyncFnOnce() -> Result<SecretString, E> + Send,
    ) -> Result<SecretString, E> {
        let mut kept = self.token.lock().await;
        match &*kept {
            Some(token) => Ok(token.clone()),
            None => Ok(kept.insert(exchange().await?).clone()),
        }
    }

    /// Drops a rejected token, so the next [`AppToken::get`] makes a new exchange. A token that replaced it stays.
    pub async fn record_refusal(&self, token: &SecretString) {
        let mut kept = self.token.lock().await;
        if kept.as_ref().is_some_and(|kept| kept.expose_secret() == token.expose_secret()) {
            *kept = None;
        }
    }
}

impl fmt::Debug for AppToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppToken")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn app() -> AppToken {
        AppToken::new("key".into(), "secret".into())
    }

    #[test]
    fn the_published_basic_header() {
        let published_vectors = super::super::oauth1::published_vectors();
        let given = |name: &str| published_vectors["app_only_basic"][name].as_str().unwrap();
        let app = AppToken::new(given("consumer_key").into(), given("consumer_secret").into());
        assert_eq!(app.basic_header().expose_secret(), format!("Basic {}", given("basic")));
    }

    #[tokio::test]
    async fn keys_are_exchanged_once_and_again_after_a_refusal() {
        let (app, exchanges) = (app(), AtomicU32::new(0));
        let get = async || {
            let exchange = async || {
                let token = exchanges.fetch_add(1, Ordering::Relaxed).to_string();
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(SecretString::from(token))
            };
            app.get(exchange).await.unwrap()
        };
        let (one, two, three) = tokio::join!(get(), get(), get());
        for token in [&one, &two, &three] {
            assert_eq!(token.expose_secret(), "0");
        }
        app.record_refusal(&one).await;
        assert_eq!(get().await.expose_secret(), "1");
        // A late rejection of the old token leaves the new one in place.
        app.record_refusal(&two).await;
        assert_eq!(get().await.expose_secret(), "1");
    }

    #[tokio::test]
    async fn a_failed_exchange_is_not_kept() {
        let app = app();
        assert_eq!(app.get(async || Err::<SecretString, _>("out")).await.unwrap_err(), "out");
        assert_eq!(app.get(async || Ok::<_, &str>("in".into())).await.unwrap().expose_secret(), "in");
    }
}
