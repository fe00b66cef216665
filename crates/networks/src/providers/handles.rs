//! Looks up accounts by handle: a batch of handles in, one outcome per *requested* handle out.
//!
//! A handle can move to another account, so it is resolved once and the account's id is stored.

use async_trait::async_trait;

use super::lookup::{Answer, Capabilities, LookupError};
use crate::model::account::Account;
use engine::quota::Credential;

#[async_trait]
pub trait Handles: Send + Sync + std::fmt::Debug {
    /// `batch_limit` counts handles.
    fn capabilities(&self) -> Capabilities;

    /// Keys under which reads of an account are counted, as in [`Lookup::read_keys`](super::lookup::Lookup::read_keys).
    fn read_keys(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// Makes one call for `handles`, without a leading `@`. Case is ignored, and a repeated handle is requested once. An empty
    /// list needs no call. The outcomes hold whole accounts, in the order asked.
    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError>;
}
