//! Addresses of the pages of all namespaces.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use collect::pipelines::profiles::is_profiles_namespace;
use collect::pipelines::visits::is_visits_namespace;

pub(super) const TWEET: &str = "/tweet";
pub(super) const ACCOUNT: &str = "/account";

#[derive(Debug, Clone, Default)]
pub(super) struct Routes {
    /// Namespace of the pages; `None` for the common ones.
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
    /// Returns the routes of each namespace, in this order. A single namespace takes the common addresses.
    pub(super) fn for_namespaces(namespaces: &[String], optional: OptionalRoutes) -> Vec<Self> {
        if let [only] = namespaces {
            return vec![Self { namespace: Some(only.clone()), root: String::new(), all: Arc::default(), optional }];
        }
        let root = |name: &String| (name.clone(), format!("/n/{}", escape(name)));
        let all: Arc<[_]> = namespaces.iter().map(root).collect();
        let routes = |(name, root): &(String, String)| Self {
            namespace: Some(name.clone()),
            root: root.clone(),
            all: all.clone(),
            optional,
        };
        all.iter().map(routes).collect()
    }

    pub(super) fn common(&self) -> Self {
        Self { namespace: None, root: String::new(), all: self.all.clone(), optional: self.optional }
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    pub(super) fn holds_accounts(&self) -> bool {
        self.namespace.as_deref().is_some_and(is_profiles_namespace)
    }

    pub(super) fn holds_visits(&self) -> bool {
        self.namespace.as_deref().is_some_and(is_visits_namespace)
    }

    pub(super) fn any_holds_accounts(&self) -> bool {
        self.all.iter().any(|(name, _)| is_profiles_namespace(name))
    }

    pub(super) fn items_address(&self) -> String {
        self.address(item_page_path(self.namespace.as_deref()))
    }

    pub(super) fn item_address(&self, id: &str) -> String {
        format!("{}?id={}", self.items_address(), escape(id))
    }

    /// Returns the address of an item in another namespace; `None` if that namespace is not shown here.
    pub(super) fn item_address_in(&self, namespace: &str, id: &str) -> Option<String> {
        let (_, root) = self.all.iter().find(|(name, _)| name == namespace)?;
        Some(format!("{root}{}?id={}", item_page_path(Some(namespace)), escape(id)))
    }

    pub(super) fn range_address(&self, range: &str, section: &str) -> String {
        self.address(&format!("/?range={range}#{section}"))
    }

    pub(super) fn range_events_address(&self, range: &str) -> String {
        self.address(&format!("/events?range={range}"))
    }

    pub(super) fn dead_address(&self, query: &[(&str, &str)]) -> String {
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        self.address(&format!("/dead?{}", query.join("&")))
    }

    pub(super) fn post_events_address(&self, id: &str) -> String {
        self.address(&format!("/events?tweet={}", escape(id)))
    }

    pub(super) fn status_address(&self) -> String {
        match &self.namespace {
            Some(name) if !self.all.is_empty() => format!("/status?namespace={}", escape(name)),
            _ => "/status".to_owned(),
        }
    }

    /// Adds the namespace to a title, if there are several.
    pub(super) fn title(&self, title: &str) -> String {
        match &self.namespace {
            Some(name) if !self.all.is_empty() => format!("{title} · {name}"),
            _ => title.to_owned(),
        }
    }
}

/// Path of the page that shows one item of this namespace.
fn item_page_path(namespace: Option<&str>) -> &'static str {
    if namespace.is_some_and(is_profiles_namespace) { ACCOUNT } else { TWEET }
}

/// Escapes a name for a path segment or a query value (RFC 3986, 3.3 and 3.4).
fn escape(name: &str) -> String {
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
            Routes::for_namespaces(&names, OptionalRoutes::default())
        };
        let only = &of(&["tweet:update"])[0];
        assert_eq!(
            [only.address("/"), only.item_address("20"), only.status_address()],
            ["/", "/tweet?id=20", "/status"]
        );
        assert_eq!(only.title("Overview"), "Overview");
        let several = of(&["x:update", "mastodon:update:a b/é"]);
        assert_eq!(several[0].address("/dead"), "/n/x:update/dead");
        assert_eq!(several[1].address("/"), "/n/mastodon:update:a%20b%2F%C3%A9/");
        assert_eq!(several[1].item_address("at://did"), "/n/mastodon:update:a%20b%2F%C3%A9/tweet?id=at:%2F%2Fdid");
        assert_eq!(several[0].status_address(), "/status?namespace=x:update");
        assert_eq!(several[0].title("Overview"), "Overview · x:update");
        let common = several[0].common();
        assert_eq!((common.address("/"), common.status_address()), ("/".to_owned(), "/status".to_owned()));
        assert_eq!(common.all.len(), 2);
        let accounts = of(&["x:update", "profiles:x"]);
        assert_eq!(accounts[1].item_address("12"), "/n/profiles:x/account?id=12");
        assert_eq!(accounts[1].item_address_in("x:update", "20").as_deref(), Some("/n/x:update/tweet?id=20"));
        assert_eq!(accounts[0].item_address_in("profiles:x", "12").as_deref(), Some("/n/profiles:x/account?id=12"));
        assert_eq!((accounts[0].holds_accounts(), accounts[1].holds_accounts()), (false, true));
    }
}
