//! Tables in a frame that scrolls sideways.

use maud::{Markup, html};

/// Class of a table whose rows are blocks on a narrow screen.
pub(super) const STACKED: Option<&str> = Some("stacked");

/// Each column has its class, or an empty text, and its name. `id` is that of the frame.
pub(super) fn scroll_table(
    id: &str,
    label: &str,
    class: Option<&str>,
    columns: &[(&str, &str)],
    rows: Markup,
) -> Markup {
    html! {
        div.scroll id=(id) tabindex="0" role="region" aria-label=(label) {
            table class=[class] aria-label=(label) {
                thead {
                    tr {
                        @for (class, name) in columns {
                            th class=[Some(class).filter(|class| !class.is_empty())] scope="col" { (name) }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
