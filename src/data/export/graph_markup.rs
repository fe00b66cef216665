//! Writer of graphs in GEXF 1.2, which Gephi and networkx read, or in GraphML.

use std::path::Path;
use std::{fmt, io};

use serde::Serialize;

use super::{ExportNote, Sink, WRITE_BYTES};
use engine::base::clock::Stopwatch;
use engine::base::humanize::{count_with_noun, group_digits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// GEXF 1.2; with times, unless the graph is of one moment.
    Gexf,
    /// GraphML, with times as attributes.
    Graphml,
}

impl GraphFormat {
    /// Returns the format of that name, which is also its file extension.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        match word {
            "gexf" => Some(Self::Gexf),
            "graphml" => Some(Self::Graphml),
            _ => None,
        }
    }

    #[must_use]
    pub fn from_path(file: &Path) -> Option<Self> {
        Self::from_name(&file.extension()?.to_str()?.to_ascii_lowercase())
    }
}

/// An attribute: its name, and its type in GEXF and in GraphML.
pub(super) type Attribute = (&'static str, &'static str);

/// Attributes of nodes and edges.
pub(super) struct GraphSchema {
    pub name: &'static str,
    pub nodes: &'static [Attribute],
    pub edges: &'static [Attribute],
    pub is_dynamic: bool,
}

/// An incomplete file: nodes first, then edges.
pub(super) struct Markup {
    format: GraphFormat,
    schema: GraphSchema,
    out: Vec<u8>,
    written: u64,
    nodes: u64,
    edges: u64,
}

pub(super) struct MarkupEdge<'a> {
    pub source: &'a str,
    pub target: &'a str,
    pub weight: Option<u64>,
    pub values: &'a [Option<String>],
    /// Start and end of each time in which the edge exists.
    pub spells: &'a [(String, Option<String>)],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphReport {
    pub nodes: u64,
    pub edges: u64,
    pub bytes: u64,
    pub seconds: f64,
}

impl fmt::Display for GraphReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, edges, bytes, seconds } = self;
        let (nodes, edges) = (count_with_noun(*nodes, "account", "accounts"), count_with_noun(*edges, "edge", "edges"));
        write!(f, "graph: {nodes}, {edges}, {} bytes, in {seconds:.1} s", group_digits(*bytes))
    }
}

impl Markup {
    pub fn new(format: GraphFormat, schema: GraphSchema) -> Self {
        let mut markup = Self { format, schema, out: Vec::new(), written: 0, nodes: 0, edges: 0 };
        markup.push_header();
        markup
    }

    fn push_text(&mut self, markup: &str) {
        self.out.extend_from_slice(markup.as_bytes());
    }

    fn push_header(&mut self) {
        self.push_text("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let GraphSchema { name, nodes, edges, is_dynamic } = self.schema;
        let classes = [("node", nodes), ("edge", edges)];
        match self.format {
            GraphFormat::Gexf => {
                let mode = if is_dynamic { "dynamic\" timeformat=\"date\"" } else { "static\"" };
                self.push_text("<gexf xmlns=\"http://www.gexf.net/1.2draft\" version=\"1.2\">\n");
                self.push_text("<meta><creator>twitter-updater</creator></meta>\n");
                self.push_text(&format!("<graph defaultedgetype=\"directed\" mode=\"{mode}>\n"));
                for (class, attributes) in classes {
                    self.push_text(&format!("<attributes class=\"{class}\">\n"));
                    for (name, kind) in attributes {
                        self.push_text(&format!("<attribute id=\"{name}\" title=\"{name}\" type=\"{kind}\"/>\n"));
                    }
                    self.push_text("</attributes>\n");
                }
                self.push_text("<nodes>\n");
            }
            GraphFormat::Graphml => {
                self.push_text("<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
                self.push_text("<key id=\"label\" for=\"node\" attr.name=\"label\" attr.type=\"string\"/>\n");
                self.push_text("<key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"long\"/>\n");
                for (class, attributes) in classes {
                    for (name, kind) in attributes {
                        self.push_text(&format!(
                            "<key id=\"{class}.{name}\" for=\"{class}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n"
                        ));
                    }
                }
                self.push_text(&format!("<graph id=\"{name}\" edgedefault=\"directed\">\n"));
            }
        }
    }

    /// Adds a node, with values in the order of [`GraphSchema::nodes`].
    pub fn add_node(&mut self, id: &str, label: &str, values: &[Option<String>]) {
        self.nodes += 1;
        let (id, label) = (escape_xml(id), escape_xml(label));
        match self.format {
            GraphFormat::Gexf => self.push_text(&format!("<node id=\"{id}\" label=\"{label}\">")),
            GraphFormat::Graphml => self.push_text(&format!("<node id=\"{id}\"><data key=\"label\">{label}</data>")),
        }
        self.push_attributes("node", self.schema.nodes, values);
        self.push_text("</node>\n");
    }

    /// Adds an edge. After the first edge, no node can be added.
    pub fn add_edge(&mut self, edge: &MarkupEdge<'_>) {
        let (is_gexf, number) = (self.format == GraphFormat::Gexf, self.edges);
        if number == 0 && is_gexf {
            self.push_text("</nodes>\n<edges>\n");
        }
        self.edges += 1;
        let (source, target) = (escape_xml(edge.source), escape_xml(edge.target));
        let weight = edge.weight.filter(|_| is_gexf).map_or(String::new(), |weight| format!(" weight=\"{weight}\""));
        self.push_text(&format!("<edge id=\"{number}\" source=\"{source}\" target=\"{target}\"{weight}>"));
        if let Some(weight) = edge.weight.filter(|_| !is_gexf) {
            self.push_text(&format!("<data key=\"weight\">{weight}</data>"));
        }
        self.push_attributes("edge", self.schema.edges, edge.values);
        if is_gexf && self.schema.is_dynamic {
            self.push_text("<spells>");
            for (start, end) in edge.spells {
                let end = end.as_ref().map_or(String::new(), |end| format!(" end=\"{end}\""));
                self.push_text(&format!("<spell start=\"{start}\"{end}/>"));
            }
            self.push_text("</spells>");
        }
        self.push_text("</edge>\n");
    }

    fn push_attributes(&mut self, class: &str, attributes: &[Attribute], values: &[Option<String>]) {
        let known = attributes.iter().zip(values).filter_map(|((name, _), value)| Some((name, value.as_ref()?)));
        match self.format {
            GraphFormat::Gexf => {
                self.push_text("<attvalues>");
                for (name, value) in known {
                    self.push_text(&format!("<attvalue for=\"{name}\" value=\"{}\"/>", escape_xml(value)));
                }
                self.push_text("</attvalues>");
            }
            GraphFormat::Graphml => {
                for (name, value) in known {
                    self.push_text(&format!("<data key=\"{class}.{name}\">{}</data>", escape_xml(value)));
                }
            }
        }
    }

    pub fn element_count(&self) -> u64 {
        self.nodes + self.edges
    }

    /// Writes the ready bytes if they are enough for one write. Returns true if it wrote.
    pub fn write_ready(&mut self, to: &mut Sink) -> io::Result<bool> {
        let is_enough = self.out.len() >= WRITE_BYTES;
        if is_enough {
            self.write_all(to)?;
        }
        Ok(is_enough)
    }

    fn write_all(&mut self, to: &mut Sink) -> io::Result<()> {
        to.write(&self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes the end of the file and its note.
    pub fn finish(mut self, to: &mut Sink, request: &str, watch: &Stopwatch) -> io::Result<GraphReport> {
        self.push_footer();
        self.write_all(to)?;
        to.save_note(&ExportNote { bytes: self.written, rows: self.element_count(), ..ExportNote::new(request) })?;
        let Self { nodes, edges, written: bytes, .. } = self;
        Ok(GraphReport { nodes, edges, bytes, seconds: watch.elapsed().as_secs_f64() })
    }

    /// Returns the unwritten markup with the end of the file, and the numbers of nodes and edges.
    #[cfg(test)]
    pub fn into_text(mut self) -> (Vec<u8>, u64, u64) {
        self.push_footer();
        (self.out, self.nodes, self.edges)
    }

    fn push_footer(&mut self) {
        let end = match (self.format, self.edges) {
            (GraphFormat::Gexf, 0) => "</nodes>\n<edges>\n</edges>\n</graph>\n</gexf>\n",
            (GraphFormat::Gexf, _) => "</edges>\n</graph>\n</gexf>\n",
            (GraphFormat::Graphml, _) => "</graph>\n</graphml>\n",
        };
        self.push_text(end);
    }
}

/// Escapes a text between tags or in an attribute. Tabs and line breaks become character references, which readers preserve. Characters
/// that XML 1.0 forbids become U+FFFD.
fn escape_xml(text: &str) -> String {
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
        assert_eq!(GraphFormat::from_path(Path::new("a.gexf")), Some(GraphFormat::Gexf));
        assert_eq!(GraphFormat::from_path(Path::new("a.graphml")), Some(GraphFormat::Graphml));
        assert_eq!(GraphFormat::from_path(Path::new("a.csv")), None);
    }
}
