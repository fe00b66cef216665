use anyhow::Result;

/// The command line is invalid: exit code 64.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadUsage(pub(super) String);

impl BadUsage {
    pub(super) fn because<T>(why: impl Into<String>) -> Result<T> {
        Err(Self(why.into()).into())
    }
}
