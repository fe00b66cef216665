/// A word that names no value of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is {fault}")]
pub struct UnknownWord {
    word: String,
    fault: String,
}

impl UnknownWord {
    /// `fault` is a clause with the known words.
    #[must_use]
    pub fn new(word: &str, fault: impl Into<String>) -> Self {
        Self { word: word.to_owned(), fault: fault.into() }
    }
}

/// Implements parsing from the word and decoding from a table. The type has `ALL` and `as_str`.
#[macro_export]
macro_rules! __stored_as_word {
    ($of:ty, $what:literal) => {
        impl std::str::FromStr for $of {
            type Err = $crate::model::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let named = Self::ALL.into_iter().find(|one| one.as_str() == word);
                named.ok_or_else(|| {
                    let known = Self::ALL.map(Self::as_str).join(", ");
                    Self::Err::new(word, format!(concat!("no ", $what, "; there are {}"), known))
                })
            }
        }

        impl<'r, D: sqlx::Database> sqlx::Decode<'r, D> for $of
        where
            &'r str: sqlx::Decode<'r, D>,
        {
            fn decode(value: D::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<'r, D>>::decode(value)?.parse()?)
            }
        }

        impl<D: sqlx::Database> sqlx::Type<D> for $of
        where
            str: sqlx::Type<D>,
        {
            fn type_info() -> D::TypeInfo {
                <str as sqlx::Type<D>>::type_info()
            }

            fn compatible(of: &D::TypeInfo) -> bool {
                <str as sqlx::Type<D>>::compatible(of)
            }
        }
    };
}

pub use __stored_as_word as stored_as_word;
