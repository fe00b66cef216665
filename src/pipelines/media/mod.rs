//! Media of posts.
pub mod addresses;
pub mod fetch;
pub mod file_type;
pub mod files;
pub mod hosts;
