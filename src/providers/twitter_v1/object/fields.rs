//! How an object is split into its fields: one walk over its text, in which all that is not read is skipped.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Author, Object};

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Id,
    IdStr,
    CreatedAt,
    FullText,
    Text,
    User,
    RetweetCount,
    FavoriteCount,
    ReplyCount,
    QuoteCount,
    WithheldCopyright,
    WithheldInCountries,
    Lang,
    InReplyToStatusIdStr,
    QuotedStatusIdStr,
    RetweetedStatus,
    ExtendedTweet,
    Truncated,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut object = Object::default();
                while let Some(field) = map.next_key()? {
                    let slot = match field {
                        Field::Id => &mut object.id,
                        Field::IdStr => &mut object.id_str,
                        Field::CreatedAt => &mut object.created_at,
                        Field::FullText => &mut object.full_text,
                        Field::Text => &mut object.text,
                        Field::RetweetCount => &mut object.retweet_count,
                        Field::FavoriteCount => &mut object.favorite_count,
                        Field::ReplyCount => &mut object.reply_count,
                        Field::QuoteCount => &mut object.quote_count,
                        Field::WithheldCopyright => &mut object.withheld_copyright,
                        Field::WithheldInCountries => &mut object.withheld_in_countries,
                        Field::Lang => &mut object.lang,
                        Field::InReplyToStatusIdStr => &mut object.in_reply_to_status_id_str,
                        Field::QuotedStatusIdStr => &mut object.quoted_status_id_str,
                        Field::RetweetedStatus => &mut object.retweeted_status,
                        Field::ExtendedTweet => &mut object.extended_tweet,
                        Field::Truncated => &mut object.truncated,
                        Field::User => {
                            object.author = map.next_value()?;
                            continue;
                        }
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(object)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum AuthorField {
    Id,
    IdStr,
    ScreenName,
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Author<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Author<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut author = Author::default();
                while let Some(field) = map.next_key()? {
                    let slot = match field {
                        AuthorField::Id => &mut author.id,
                        AuthorField::IdStr => &mut author.id_str,
                        AuthorField::ScreenName => &mut author.screen_name,
                        AuthorField::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(author)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// What stands where a map belongs, read in one go: cut out and read afterwards, each map would be walked
/// through twice.
pub enum MapOrElse<T> {
    /// A map.
    Map(T),
    /// Something else; what, nobody needs to know.
    Else,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for MapOrElse<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = MapOrElse<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(MapOrElse::Map)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(MapOrElse::Else)
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(MapOrElse::Else)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}
