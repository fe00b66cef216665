//! The tokens that clients send to `ops` and `starter`, each kept as its file has it.

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

/// The token of the page, which follows its file until the process is to stop; `None` if none is given.
///
/// # Errors
/// It cannot be read, or cannot be used.
pub fn page_token(settings: &Settings, stop: &Stop) -> Result<Option<AccessToken>, BadConfig> {
    follow("ops.token_file", &settings.ops.token_file, Settings::ops_token, settings, stop)
}

/// The same of the starter.
///
/// # Errors
/// As [`page_token`].
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
    // A variable of the environment never changes.
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

/// The file of a token. It is read in intervals and not watched: a mounted Secret is swapped by one rename of `..data`,
/// which watchers on the file do not hear of.
struct TokenFile {
    /// The setting that names it.
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

    /// The content, if it is not the one last seen (`refused`, or else the token in force) and stays for a moment: it may
    /// be half written.
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

    /// The token in the file, or why it cannot be used.
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
