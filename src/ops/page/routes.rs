//! The addresses of a namespace's pages, and of the others.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::pipelines::profiles::holds_accounts;
use crate::pipelines::visits::holds_visits;

/// The path of an item's page,
pub(super) const TWEET: &str = "/tweet";
/// and of an account's page.
pub(super) const ACCOUNT: &str = "/account";

#[derive(Debug, Clone, Default)]
pub(super) struct Routes {
    /// The namespace of the pages; `None` for the common ones.
    pub namespace: Option<String>,
    /// Prefix of each path; empty for common pages, and for a single namespace.
    root: String,
    /// Each namespace with the root of its pages; empty if there is only one.
    pub all: Arc<[(String, String)]>,
    pub optional: OptionalRoutes,
}

/// Addresses that the settings add or move.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OptionalRoutes {
    /// `/logout`: there is a token.
    pub logout: bool,
    /// `/metrics`, unless it has a port of its own.
    pub metrics: bool,
}

impl Routes {
    /// The routes of each namespace, in this order. A single namespace takes the common addresses.
    pub(super) fn of(namespaces: &[String], optional: OptionalRoutes) -> Vec<Self> {
        if let [only] = namespaces {
            return vec![Self { namespace: Some(only.clone()), root: String::new(), all: Arc::default(), optional }];
        }
        let root = |name: &String| (name.clone(), format!("/n/{}", escaped(name)));
        let all: Arc<[_]> = namespaces.iter().map(root).collect();
        let routes = |(name, root): &(String, String)| Self {
            namespace: Some(name.clone()),
            root: root.clone(),
            all: all.clone(),
            optional,
        };
        all.iter().map(routes).collect()
    }

    pub(super) fn in_common(&self) -> Self {
        Self { namespace: None, root: String::new(), all: self.all.clone(), optional: self.optional }
    }

    pub(super) fn to(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    pub(super) fn holds_accounts(&self) -> bool {
        self.namespace.as_deref().is_some_and(holds_accounts)
    }

    pub(super) fn holds_visits(&self) -> bool {
        self.namespace.as_deref().is_some_and(holds_visits)
    }

    pub(super) fn show_accounts(&self) -> bool {
        self.all.iter().any(|(name, _)| holds_accounts(name))
    }

    pub(super) fn to_items(&self) -> String {
        self.to(path_of_items(self.namespace.as_deref()))
    }

    pub(super) fn to_item(&self, id: &str) -> String {
        format!("{}?id={}", self.to_items(), escaped(id))
    }

    /// The page of an item of another namespace; `None` if that namespace is not shown here.
    pub(super) fn to_item_of(&self, namespace: &str, id: &str) -> Option<String> {
        let (_, root) = self.all.iter().find(|(name, _)| name == namespace)?;
        Some(format!("{root}{}?id={}", path_of_items(Some(namespace)), escaped(id)))
    }

    pub(super) fn to_range(&self, range: &str, section: &str) -> String {
        self.to(&format!("/?range={range}#{section}"))
    }

    pub(super) fn to_events_of_range(&self, range: &str) -> String {
        self.to(&format!("/events?range={range}"))
    }

    pub(super) fn to_dead(&self, query: &[(&str, &str)]) -> String {
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        self.to(&format!("/dead?{}", query.join("&")))
    }

    pub(super) fn to_events_of(&self, id: &str) -> String {
        self.to(&format!("/events?tweet={}", escaped(id)))
    }

    pub(super) fn to_status(&self) -> String {
        match &self.namespace {
            Some(name) if !self.all.is_empty() => format!("/status?namespace={}", escaped(name)),
            _ => "/status".to_owned(),
        }
    }

    /// The title of a page: with its namespace, if there are several.
    pub(super) fn title(&self, title: &str) -> String {
        match &self.namespace {
            Some(name) if !self.all.is_empty() => format!("{title} · {name}"),
            _ => title.to_owned(),
        }
    }
}

fn path_of_items(namespace: Option<&str>) -> &'static str {
    if namespace.is_some_and(holds_accounts) { ACCOUNT } else { TWEET }
}

/// Escapes a name as a segment of a path or as a value of a query. Bytes that are not allowed in both are written in hexadecimal (RFC
/// 3986, 3.3 and 3.4).
fn escaped(name: &str) -> String {
    const WRITTEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');
    utf8_percent_encode(name, WRITTEN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_is_at_the_root_and_several_are_below_it() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Routes::of(&names, OptionalRoutes::default())
        };
        let only = &of(&["tweet:update"])[0];
        assert_eq!([only.to("/"), only.to_item("20"), only.to_status()], ["/", "/tweet?id=20", "/status"]);
        assert_eq!(only.title("Overview"), "Overview");
        let several = of(&["x:update", "mastodon:update:a b/é"]);
        assert_eq!(several[0].to("/dead"), "/n/x:update/dead");
        assert_eq!(several[1].to("/"), "/n/mastodon:update:a%20b%2F%C3%A9/");
        assert_eq!(several[1].to_item("at://did"), "/n/mastodon:update:a%20b%2F%C3%A9/tweet?id=at:%2F%2Fdid");
        assert_eq!(several[0].to_status(), "/status?namespace=x:update");
        assert_eq!(several[0].title("Overview"), "Overview · x:update");
        let common = several[0].in_common();
        assert_eq!((common.to("/"), common.to_status()), ("/".to_owned(), "/status".to_owned()));
        assert_eq!(common.all.len(), 2);
        let accounts = of(&["x:update", "profiles:x"]);
        assert_eq!(accounts[1].to_item("12"), "/n/profiles:x/account?id=12");
        assert_eq!(accounts[1].to_item_of("x:update", "20").as_deref(), Some("/n/x:update/tweet?id=20"));
        assert_eq!(accounts[0].to_item_of("profiles:x", "12").as_deref(), Some("/n/profiles:x/account?id=12"));
        assert_eq!((accounts[0].holds_accounts(), accounts[1].holds_accounts()), (false, true));
    }
}
