//! Addresses of the pages of all namespaces.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use collect::pipelines::kind::ItemContent;

pub(super) const TWEET: &str = "/tweet";
pub(super) const ACCOUNT: &str = "/account";

#[derive(Debug, Clone, Default)]
pub(super) struct Routes {
    /// Namespace of the pages; `None` for the common ones.
    pub namespace: Option<String>,
    content: ItemContent,
    /// Prefix of each path; empty for common pages, and for a single namespace.
    root: String,
    /// Each namespace; empty if there is only one.
    pub all: Arc<[NamespaceRoute]>,
    pub optional: OptionalRoutes,
}

#[derive(Debug, Clone)]
pub(super) struct NamespaceRoute {
    pub name: String,
    /// Root of its pages.
    pub root: String,
    pub content: ItemContent,
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
    pub(super) fn for_namespaces(namespaces: &[(String, ItemContent)], optional: OptionalRoutes) -> Vec<Self> {
        let routes =
            |name: &String, content, root, all| Self { namespace: Some(name.clone()), content, root, all, optional };
        if let [(only, content)] = namespaces {
            return vec![routes(only, *content, String::new(), Arc::default())];
        }
        let route = |(name, content): &(String, ItemContent)| NamespaceRoute {
            name: name.clone(),
            root: format!("/n/{}", escape(name)),
            content: *content,
        };
        let all: Arc<[_]> = namespaces.iter().map(route).collect();
        all.iter().map(|of| routes(&of.name, of.content, of.root.clone(), all.clone())).collect()
    }

    pub(super) fn common(&self) -> Self {
        Self { all: self.all.clone(), optional: self.optional, ..Self::default() }
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    pub(super) fn holds_accounts(&self) -> bool {
        self.content == ItemContent::Accounts
    }

    pub(super) fn any_holds_accounts(&self) -> bool {
        self.all.iter().any(|of| of.content == ItemContent::Accounts)
    }

    pub(super) fn items_address(&self) -> String {
        self.address(item_page_path(self.content))
    }

    pub(super) fn item_address(&self, id: &str) -> String {
        format!("{}?id={}", self.items_address(), escape(id))
    }

    /// Returns the address of an item in another namespace; `None` if that namespace is not shown here.
    pub(super) fn item_address_in(&self, namespace: &str, id: &str) -> Option<String> {
        let of = self.all.iter().find(|of| of.name == namespace)?;
        Some(format!("{}{}?id={}", of.root, item_page_path(of.content), escape(id)))
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

/// Path of the page that shows one item of that content.
fn item_page_path(content: ItemContent) -> &'static str {
    if content == ItemContent::Accounts { ACCOUNT } else { TWEET }
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
            let content = |name: &str| match name.starts_with("profiles:") {
                true => ItemContent::Accounts,
                false => ItemContent::Posts,
            };
            let names: Vec<_> = names.iter().map(|name| ((*name).to_owned(), content(name))).collect();
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
