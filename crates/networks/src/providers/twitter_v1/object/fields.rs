//! Splits an object into its fields, in one pass over its text that skips all other fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Author, Object};

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub enum Field {
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
    InReplyToStatusId,
    InReplyToStatusIdStr,
    InReplyToUserId,
    InReplyToUserIdStr,
    QuotedStatusId,
    QuotedStatusIdStr,
    RetweetedStatus,
    ExtendedTweet,
    Truncated,
    AuthorId,
    PublicMetrics,
    #[serde(other)]
    Other,
}

/// Target of one pass over an object's text: it takes field by field, repeated ones included.
pub trait Fields<'de>: Default {
    type Name: Deserialize<'de>;

    /// Takes the field of that name, whose value must be read from `map`.
    fn read_field<A: MapAccess<'de>>(&mut self, name: Self::Name, map: &mut A) -> Result<(), A::Error>;

    fn walk<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Walk(PhantomData))
    }
}

struct Walk<T>(PhantomData<T>);

impl<'de, T: Fields<'de>> Visitor<'de> for Walk<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(name) = map.next_key()? {
            object.read_field(name, &mut map)?;
        }
        Ok(object)
    }
}

impl<'de> Fields<'de> for Object<'de> {
    type Name = Field;

    fn read_field<A: MapAccess<'de>>(&mut self, name: Field, map: &mut A) -> Result<(), A::Error> {
        let target = match name {
            Field::Id => &mut self.id,
            Field::IdStr => &mut self.id_str,
            Field::CreatedAt => &mut self.created_at,
            Field::FullText => &mut self.full_text,
            Field::Text => &mut self.text,
            Field::RetweetCount => &mut self.retweet_count,
            Field::FavoriteCount => &mut self.favorite_count,
            Field::ReplyCount => &mut self.reply_count,
            Field::QuoteCount => &mut self.quote_count,
            Field::WithheldCopyright => &mut self.withheld_copyright,
            Field::WithheldInCountries => &mut self.withheld_in_countries,
            Field::Lang => &mut self.lang,
            Field::InReplyToStatusId => &mut self.in_reply_to_status_id,
            Field::InReplyToStatusIdStr => &mut self.in_reply_to_status_id_str,
            Field::InReplyToUserId => &mut self.in_reply_to_user_id,
            Field::InReplyToUserIdStr => &mut self.in_reply_to_user_id_str,
            Field::QuotedStatusId => &mut self.quoted_status_id,
            Field::QuotedStatusIdStr => &mut self.quoted_status_id_str,
            Field::RetweetedStatus => &mut self.retweeted_status,
            Field::ExtendedTweet => &mut self.extended_tweet,
            Field::Truncated => &mut self.truncated,
            Field::AuthorId => &mut self.author_id,
            Field::PublicMetrics => &mut self.public_metrics,
            Field::User => {
                self.author = map.next_value()?;
                return Ok(());
            }
            Field::Other => return map.next_value::<IgnoredAny>().map(drop),
        };
        *target = Some(map.next_value()?);
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::walk(deserializer)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub enum AuthorField {
    Id,
    IdStr,
    ScreenName,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Author<'de> {
    type Name = AuthorField;

    fn read_field<A: MapAccess<'de>>(&mut self, name: AuthorField, map: &mut A) -> Result<(), A::Error> {
        let target = match name {
            AuthorField::Id => &mut self.id,
            AuthorField::IdStr => &mut self.id_str,
            AuthorField::ScreenName => &mut self.screen_name,
            AuthorField::Other => return map.next_value::<IgnoredAny>().map(drop),
        };
        *target = Some(map.next_value()?);
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Author<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Author::walk(deserializer)
    }
}

/// Value in place of a map, read in one pass: cutting out each map first would walk through it twice.
pub enum MapOrElse<T> {
    Map(T),
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
