//! Tokens that clients send to `ops` and `starter`. A changed token file takes effect without a restart.

use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;

use super::config_follower::{FILE_READ_INTERVAL, REREAD_DELAY};
use collect::config::{BadConfig, Settings};
use engine::base::shutdown::Stop;
use engine::base::supervise::{BackgroundTask, LogOnly};
use engine::base::task;
use engine::base::token::AccessToken;

type ReadToken = fn(&Settings) -> Result<Option<SecretString>, BadConfig>;

/// Token of the page, which follows its file; `None` if it is not set.
pub fn page_token(settings: &Settings, stop: &Stop) -> Result<Option<AccessToken>, BadConfig> {
    read_and_follow_token("ops.token_file", &settings.ops.token_file, Settings::ops_token, settings, stop)
}

/// Token of the starter, which follows its file; `None` if it is not set.
pub fn starter_token(settings: &Settings, stop: &Stop) -> Result<Option<AccessToken>, BadConfig> {
    read_and_follow_token(
        "starter.bearer_token_file",
        &settings.starter.bearer_token_file,
        Settings::starter_token,
        settings,
        stop,
    )
}

/// Reads a token, and replaces it while the process runs if its file changes. `None` if no token is set.
fn read_and_follow_token(
    setting: &'static str,
    file: &Path,
    read: ReadToken,
    settings: &Settings,
    stop: &Stop,
) -> Result<Option<AccessToken>, BadConfig> {
    let Some(token) = read(settings)?.as_ref().map(AccessToken::new) else { return Ok(None) };
    // An environment variable never changes.
    if !file.as_os_str().is_empty() {
        let follower = Arc::new(TokenFile { setting, read, settings: settings.clone(), token: token.clone() });
        let task_stop = stop.clone();
        let following = BackgroundTask::new(setting, move || {
            let (follower, stop) = (follower.clone(), task_stop.clone());
            async move { follower.run(stop).await }
        });
        tokio::spawn(following.run("process".to_owned(), Arc::new(LogOnly), stop.clone()));
    }
    Ok(Some(token))
}

/// File of a token. It is polled: file watchers do not see the rename of `..data` that replaces a mounted Secret.
struct TokenFile {
    setting: &'static str,
    read: ReadToken,
    settings: Settings,
    token: AccessToken,
}

impl TokenFile {
    async fn run(&self, stop: Stop) {
        let mut last_error: Option<BadConfig> = None;
        let setting = self.setting;
        while !stop.is_draining() {
            stop.sleep(FILE_READ_INTERVAL).await;
            task::step("reads a token");
            match self.changed_content(last_error.as_ref()).await {
                None => {}
                Some(Ok(new)) if self.token.matches(&new) => {
                    last_error = None;
                    tracing::info!(setting, "the token file is usable again and contains the current token");
                }
                Some(Ok(new)) => {
                    last_error = None;
                    self.token.replace(&new);
                    tracing::info!(
                        setting,
                        "the token has changed: the former token is refused, and its sessions have ended"
                    );
                }
                Some(Err(error)) => {
                    tracing::warn!(
                        setting,
                        error = error.0,
                        "the changed token cannot be used: the former token stays in force"
                    );
                    last_error = Some(error);
                }
            }
        }
    }

    /// Returns the content if it is new and stays the same for a moment, because it may be half written. An error is new
    /// if it differs from `last_error`; a token, if it differs from the current one or follows an error.
    async fn changed_content(&self, last_error: Option<&BadConfig>) -> Option<Result<SecretString, BadConfig>> {
        let is_known = |content: &Result<SecretString, BadConfig>| match content {
            Ok(token) => last_error.is_none() && self.token.matches(token),
            Err(error) => last_error == Some(error),
        };
        let first = self.content().await.filter(|content| !is_known(content))?;
        tokio::time::sleep(REREAD_DELAY).await;
        let again = self.content().await?;
        is_same(&first, &again).then_some(again)
    }

    /// Returns the token in the file, or an error that explains why it is unusable.
    async fn content(&self) -> Option<Result<SecretString, BadConfig>> {
        let (read, settings) = (self.read, self.settings.clone());
        let content = tokio::task::spawn_blocking(move || read(&settings)).await;
        content.ok()?.transpose()
    }
}

fn is_same(one: &Result<SecretString, BadConfig>, other: &Result<SecretString, BadConfig>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => AccessToken::new(one).matches(other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}
