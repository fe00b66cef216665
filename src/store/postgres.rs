//! To come.
/// To come.
#[derive(Debug)]
pub struct PostgresStore;
