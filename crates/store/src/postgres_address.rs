//! The address of a PostgreSQL server. Only a server that is verified gets a password.
//!
//! | `sslmode` | the server is verified | over a network |
//! |---|---|---|
//! | not given | | becomes `verify-full` |
//! | `verify-full` | its certificate and its name | as written |
//! | `verify-ca` | any name that some trusted authority signed; sqlx adds the system's authorities to `sslrootcert` | refused |
//! | `require`, `prefer`, `allow` | no: any server that answers gets the password | refused |
//! | `disable` | no, and the address says so | as written |
//!
//! This holds with or without a password in the address: it may also come from `PGPASSWORD` or `~/.pgpass`. A Unix
//! socket and this machine itself allow every mode.

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tracing::subscriber::{NoSubscriber, with_default};

use engine::base::backend::loopback::is_loopback;

#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// The reason in `source` may repeat a part of a password.
    #[error("the database's address cannot be read")]
    Unreadable(#[source] sqlx::Error),
    #[error(
        "sslmode={0} sends the password to any server that answers: write sslmode=verify-full, with sslrootcert=FILE for a \
         private authority, or sslmode=disable to send it in clear text"
    )]
    Unverified(&'static str),
}

/// Parses an address. A server that is not on this machine must be verified.
pub fn parse_address(url: &str) -> Result<PgConnectOptions, BadAddress> {
    // sqlx warns of unknown parameters and prints their values: a mistyped `password` is one.
    let options = with_default(NoSubscriber::default(), || url.parse::<PgConnectOptions>());
    let options = options.map_err(BadAddress::Unreadable)?;
    if is_local(&options) {
        return Ok(options);
    }
    Err(BadAddress::Unverified(match options.get_ssl_mode() {
        PgSslMode::VerifyFull | PgSslMode::Disable => return Ok(options),
        PgSslMode::Prefer if !names_mode(url) => return Ok(options.ssl_mode(PgSslMode::VerifyFull)),
        PgSslMode::Prefer => "prefer",
        PgSslMode::Allow => "allow",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
    }))
}

/// Returns true if the error means that no verified connection could be made.
#[must_use]
pub fn is_unverified(options: &PgConnectOptions, error: &sqlx::Error) -> bool {
    let is_refused = match error {
        sqlx::Error::Tls(_) => true,
        // rustls reports its errors in this way.
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    };
    is_refused && matches!(options.get_ssl_mode(), PgSslMode::VerifyFull)
}

fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some() || host.starts_with('/') || is_loopback(host)
}

fn names_mode(url: &str) -> bool {
    let url = url::Url::parse(url);
    url.is_ok_and(|url| url.query_pairs().any(|(key, _)| ["sslmode", "ssl-mode"].contains(&&*key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> Result<String, String> {
        parse_address(url).map(|options| format!("{:?}", options.get_ssl_mode())).map_err(|why| why.to_string())
    }

    #[test]
    fn a_server_across_a_network_is_verified() {
        for url in [
            "postgres://u:p@db.example.org/items",
            "postgresql://u:p@10.0.0.7:5433/items",
            "postgres://u:p@[2001:db8::1]/items",
            "postgres://localhost/items?host=db.example.org&password=p",
            "postgres:///items?host=db.example.org&user=u&password=p",
            "postgres:///items?hostaddr=10.0.0.7&password=p",
            "postgres://u:p@0.0.0.0/items",
            "postgres://u:p@localhost.example.org/items",
            "postgres://u:p@db/items?sslmode=verify-full&sslrootcert=/ca.pem",
        ] {
            assert_eq!(mode(url).as_deref(), Ok("VerifyFull"), "{url}");
        }
        assert_eq!(mode("postgres://u:p@db/items?sslmode=disable").as_deref(), Ok("Disable"));
        for (word, written) in [
            ("prefer", "sslmode=prefer"),
            ("prefer", "sslmode=PREFER"),
            ("allow", "ssl-mode=allow"),
            ("require", "sslmode=require"),
            ("verify-ca", "sslmode=verify-ca&sslrootcert=/ca.pem"),
        ] {
            let why = mode(&format!("postgres://u:canary@db/items?{written}")).unwrap_err();
            assert!(why.contains(&format!("sslmode={word} sends the password")) && !why.contains("canary"), "{why}");
        }
    }

    #[test]
    fn this_machine_may_have_any_mode() {
        for url in [
            "postgres://u:p@localhost/items",
            "postgres://u:p@127.0.0.1:5433/items",
            "postgres://u:p@[::1]/items",
            "postgres://u:p@db/items?host=/run/postgresql",
            "postgres://u:p@%2Frun%2Fpostgresql/items",
        ] {
            assert_eq!(mode(url).as_deref(), Ok("Prefer"), "{url}");
            let allowed = format!("{url}{}sslmode=allow", if url.contains('?') { '&' } else { '?' });
            assert_eq!(mode(&allowed).as_deref(), Ok("Allow"), "{url}");
        }
    }
}
