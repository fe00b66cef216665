//! Graphs in the markup of their files: GEXF 1.2, which Gephi and networkx read, or GraphML.

use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// GEXF 1.2; with times, unless the graph is of one moment.
    Gexf,
    /// GraphML has no times of its own: they are attributes.
    Graphml,
}

impl GraphFormat {
    /// Returns the format of that name, which is also the end of a file's name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "gexf" => Some(Self::Gexf),
            "graphml" => Some(Self::Graphml),
            _ => None,
        }
    }

    #[must_use]
    pub fn of(file: &Path) -> Option<Self> {
        Self::named(&file.extension()?.to_str()?.to_ascii_lowercase())
    }
}

/// An attribute: its name, and its type in GEXF and in GraphML.
pub(super) type Attribute = (&'static str, &'static str);

pub(super) struct Subject {
    pub name: &'static str,
    pub nodes: &'static [Attribute],
    pub edges: &'static [Attribute],
    pub is_dynamic: bool,
}

/// A file in the making: nodes first, then edges.
pub(super) struct Markup {
    format: GraphFormat,
    subject: Subject,
    pub out: Vec<u8>,
    pub nodes: u64,
    pub edges: u64,
}

pub(super) struct MarkupEdge<'a> {
    pub source: &'a str,
    pub target: &'a str,
    pub weight: Option<u64>,
    pub values: &'a [Option<String>],
    /// Times at which the edge exists, from and until.
    pub spells: &'a [(String, Option<String>)],
}

impl Markup {
    pub fn new(format: GraphFormat, subject: Subject) -> Self {
        let mut markup = Self { format, subject, out: Vec::new(), nodes: 0, edges: 0 };
        markup.begin();
        markup
    }

    fn text(&mut self, markup: &str) {
        self.out.extend_from_slice(markup.as_bytes());
    }

    fn begin(&mut self) {
        self.text("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let Subject { name, nodes, edges, is_dynamic } = self.subject;
        let classes = [("node", nodes), ("edge", edges)];
        match self.format {
            GraphFormat::Gexf => {
                let mode = if is_dynamic { "dynamic\" timeformat=\"date\"" } else { "static\"" };
                self.text("<gexf xmlns=\"http://www.gexf.net/1.2draft\" version=\"1.2\">\n");
                self.text("<meta><creator>twitter-updater</creator></meta>\n");
                self.text(&format!("<graph defaultedgetype=\"directed\" mode=\"{mode}>\n"));
                for (class, attributes) in classes {
                    self.text(&format!("<attributes class=\"{class}\">\n"));
                    for (name, kind) in attributes {
                        self.text(&format!("<attribute id=\"{name}\" title=\"{name}\" type=\"{kind}\"/>\n"));
                    }
                    self.text("</attributes>\n");
                }
                self.text("<nodes>\n");
            }
            GraphFormat::Graphml => {
                self.text("<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
                self.text("<key id=\"label\" for=\"node\" attr.name=\"label\" attr.type=\"string\"/>\n");
                self.text("<key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"long\"/>\n");
                for (class, attributes) in classes {
                    for (name, kind) in attributes {
                        self.text(&format!(
                            "<key id=\"{class}.{name}\" for=\"{class}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n"
                        ));
                    }
                }
                self.text(&format!("<graph id=\"{name}\" edgedefault=\"directed\">\n"));
            }
        }
    }

    /// Adds a node; its values have the order of [`Subject::nodes`].
    pub fn node(&mut self, id: &str, label: &str, values: &[Option<String>]) {
        self.nodes += 1;
        let (id, label) = (escaped(id), escaped(label));
        match self.format {
            GraphFormat::Gexf => self.text(&format!("<node id=\"{id}\" label=\"{label}\">")),
            GraphFormat::Graphml => self.text(&format!("<node id=\"{id}\"><data key=\"label\">{label}</data>")),
        }
        self.attributes("node", self.subject.nodes, values);
        self.text("</node>\n");
    }

    /// Adds an edge. After the first edge, no node can be added.
    pub fn edge(&mut self, edge: &MarkupEdge<'_>) {
        let (is_gexf, number) = (self.format == GraphFormat::Gexf, self.edges);
        if number == 0 && is_gexf {
            self.text("</nodes>\n<edges>\n");
        }
        self.edges += 1;
        let (source, target) = (escaped(edge.source), escaped(edge.target));
        let weight = edge.weight.filter(|_| is_gexf).map_or(String::new(), |weight| format!(" weight=\"{weight}\""));
        self.text(&format!("<edge id=\"{number}\" source=\"{source}\" target=\"{target}\"{weight}>"));
        if let Some(weight) = edge.weight.filter(|_| !is_gexf) {
            self.text(&format!("<data key=\"weight\">{weight}</data>"));
        }
        self.attributes("edge", self.subject.edges, edge.values);
        if is_gexf && self.subject.is_dynamic {
            self.text("<spells>");
            for (start, end) in edge.spells {
                let end = end.as_ref().map_or(String::new(), |end| format!(" end=\"{end}\""));
                self.text(&format!("<spell start=\"{start}\"{end}/>"));
            }
            self.text("</spells>");
        }
        self.text("</edge>\n");
    }

    fn attributes(&mut self, class: &str, attributes: &[Attribute], values: &[Option<String>]) {
        let known = attributes.iter().zip(values).filter_map(|((name, _), value)| Some((name, value.as_ref()?)));
        match self.format {
            GraphFormat::Gexf => {
                self.text("<attvalues>");
                for (name, value) in known {
                    self.text(&format!("<attvalue for=\"{name}\" value=\"{}\"/>", escaped(value)));
                }
                self.text("</attvalues>");
            }
            GraphFormat::Graphml => {
                for (name, value) in known {
                    self.text(&format!("<data key=\"{class}.{name}\">{}</data>", escaped(value)));
                }
            }
        }
    }

    pub fn finish(&mut self) {
        let end = match (self.format, self.edges) {
            (GraphFormat::Gexf, 0) => "</nodes>\n<edges>\n</edges>\n</graph>\n</gexf>\n",
            (GraphFormat::Gexf, _) => "</edges>\n</graph>\n</gexf>\n",
            (GraphFormat::Graphml, _) => "</graph>\n</graphml>\n",
        };
        self.text(end);
    }
}

/// Escapes a text between tags or in an attribute. White space except blanks becomes a number, since attribute readers would make blanks
/// of it. Characters that XML 1.0 forbids become U+FFFD.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push_str(&format!("&#{};", u32::from(c))),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_names_its_format() {
        assert_eq!(GraphFormat::of(Path::new("a.gexf")), Some(GraphFormat::Gexf));
        assert_eq!(GraphFormat::of(Path::new("a.graphml")), Some(GraphFormat::Graphml));
        assert_eq!(GraphFormat::of(Path::new("a.csv")), None);
    }
}
