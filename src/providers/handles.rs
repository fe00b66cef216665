//! Accounts by their handles: a batch of handles in, one outcome per *asked* handle out.
//!
//! A handle moves from one account to another, so it is asked for once, and the account's id is kept.

use async_trait::async_trait;

use super::lookup::{Answer, Capabilities, LookupError};
use crate::model::account::Account;
use crate::quota::Credential;

/// The way to look up accounts by handle.
#[async_trait]
pub trait Handles: Send + Sync + std::fmt::Debug {
    /// Its capabilities. `batch_limit` counts handles.
    fn capabilities(&self) -> Capabilities;

    /// The keys under which an account is counted where reads are charged, as
    /// [`Lookup::reads`](super::lookup::Lookup::reads) has them.
    fn reads(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// One call for `handles`, without `@` in front. Capital and small letters are the same: a handle that comes twice is
    /// asked for once. Nothing asked is answered without a call. The outcomes are those of whole accounts, in the order
    /// asked.
    ///
    /// # Errors
    /// As [`Lookup::look_up`](super::lookup::Lookup::look_up).
    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError>;
}
