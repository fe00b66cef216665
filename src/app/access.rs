//! Tokens that clients send to `ops` and `starter`. A changed token file takes effect without a restart.

use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;

use super::follow::{READ_AGAIN_AFTER, READ_EVERY};
use crate::base::shutdown::Stop;
use crate::base::supervise::{Beside, LogAlone};
use crate::base::task;
use crate::base::token::AccessToken;
use crate::config::{BadConfig, Settings};

type Read = fn(&Settings) -> Result<Option<SecretString>, BadConfig>;

/// Token of the page. It follows its file until the process stops; `None` if it is not set.
pub fn page_token(settings: &Settings, stop: &Stop) -> Result<Option<AccessToken>, BadConfig> {
    follow("ops.token_file", &settings.ops.token_file, Settings::ops_token, settings, stop)
}

/// Token of the starter, as [`page_token`].
pub fn starter_token(settings: &Settings, stop: &Stop) -> Result<Option<AccessToken>, BadConfig> {
    follow("starter.bearer_token_file", &settings.starter.bearer_token_file, Settings::starter_token, settings, stop)
}

fn follow(
    setting: &'static str,
    file: &Path,
    read: Read,
    settings: &Settings,
    stop: &Stop,
) -> Result<Option<AccessToken>, BadConfig> {
    let Some(token) = read(settings)?.as_ref().map(AccessToken::new) else { return Ok(None) };
    // An environment variable never changes.
    if !file.as_os_str().is_empty() {
        let follower = Arc::new(TokenFile { setting, read, settings: settings.clone(), token: token.clone() });
        let of_task = stop.clone();
        let following = Beside::new(setting, move || {
            let (follower, stop) = (follower.clone(), of_task.clone());
            async move { follower.run(stop).await }
        });
        tokio::spawn(following.run("process".to_owned(), Arc::new(LogAlone), stop.clone()));
    }
    Ok(Some(token))
}

/// File of a token. It is polled, not watched: a mounted Secret is swapped by one rename of `..data`, which file
/// watchers do not see.
struct TokenFile {
    setting: &'static str,
    read: Read,
    settings: Settings,
    token: AccessToken,
}

impl TokenFile {
    async fn run(&self, stop: Stop) {
        let mut refused: Option<String> = None;
        let setting = self.setting;
        while !stop.is_draining() {
            stop.sleep(READ_EVERY).await;
            task::step("reads a token");
            match self.changed(refused.as_deref()).await {
                None => {}
                Some(Ok(new)) if self.token.is(&new) => {
                    refused = None;
                    tracing::info!(setting, "the file has the token in force again");
                }
                Some(Ok(new)) => {
                    refused = None;
                    self.token.replace(&new);
                    tracing::info!(setting, "the token has changed: the former one is refused, and its sessions ended");
                }
                Some(Err(error)) => {
                    tracing::warn!(setting, error, "the changed token cannot be used: the one in force stays");
                    refused = Some(error);
                }
            }
        }
    }

    /// Returns the content if it is new and stays the same for a moment, because it may be half written. An error is new if it differs
    /// from `refused`. A token is new after a refused content, or if it differs from the current token.
    async fn changed(&self, refused: Option<&str>) -> Option<Result<SecretString, String>> {
        let is_known = |content: &Result<SecretString, String>| match content {
            Ok(token) => refused.is_none() && self.token.is(token),
            Err(error) => refused == Some(error),
        };
        let first = self.content().await.filter(|content| !is_known(content))?;
        tokio::time::sleep(READ_AGAIN_AFTER).await;
        let again = self.content().await?;
        is_same(&first, &again).then_some(again)
    }

    /// Returns the token in the file, or the reason why it is unusable.
    async fn content(&self) -> Option<Result<SecretString, String>> {
        let (read, settings) = (self.read, self.settings.clone());
        let content = tokio::task::spawn_blocking(move || read(&settings)).await;
        content.ok()?.map_err(|BadConfig(error)| error).transpose()
    }
}

fn is_same(one: &Result<SecretString, String>, other: &Result<SecretString, String>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => AccessToken::new(one).is(other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}
