//! What training finds of all items: the file that comes with the program, or one of the operator's own data. Pure.

use serde::{Deserialize, Serialize};

/// Coefficients of the visiting policies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// Where the events come from, for people.
    pub source: String,
    /// The command that made the file.
    pub command: String,
    /// Activity of everybody by the hour of the day (UTC), as a multiple of the day's mean.
    pub profile: [f64; 24],
}

/// Why a file has no coefficients.
#[derive(Debug, thiserror::Error)]
pub enum BadCoefficients {
    /// Not the shape of one.
    #[error("not coefficients of visits: {0}")]
    Shape(#[from] toml::de::Error),
    /// One of its numbers.
    #[error("coefficients of visits: {0}")]
    Number(&'static str),
}

impl Coefficients {
    /// Those that come with the program: `config/visits.toml`.
    ///
    /// # Errors
    /// None, unless the file was broken when the program was compiled; a test reads it.
    pub fn embedded() -> Result<Self, BadCoefficients> {
        Self::parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/visits.toml")))
    }

    /// Reads them from the text of their file.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadCoefficients> {
        let read: Self = toml::from_str(text)?;
        if read.profile.iter().all(|hour| hour.is_finite() && *hour > 0.0) {
            Ok(read)
        } else {
            Err(BadCoefficients::Number("profile must have 24 numbers above 0"))
        }
    }
}
