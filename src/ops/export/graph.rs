//! The graph of follows as a file.
//!
//! Each pair of accounts has one edge, from the follower to the followed account. Only the times at which pages show it are certain. A
//! spell in GEXF starts with the first page that showed it, or with the follow if the network states its time. It ends with the last such
//! page, and is open if the edge is still there. The bounds of its true start and end are attributes.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::format::time;
use super::graph_markup::{Attribute, GraphFormat, Markup, MarkupEdge, Subject};
use super::{ExportError, Note, Sink, WRITTEN_BYTES, into_file, into_output};
use crate::base::clock::Stopwatch;
use crate::base::humanize::{counted, grouped};
use crate::base::shutdown::Stop;
use crate::store::{Edge, GraphPart, GraphWanted, Graphs, Interval, Node};

#[derive(Debug)]
pub struct GraphExport {
    pub graphs: Arc<dyn Graphs>,
    pub wanted: GraphWanted,
    /// The same part in the caller's words.
    pub request: String,
    pub format: GraphFormat,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawn {
    pub nodes: u64,
    /// Pairs of accounts, one of which follows or followed the other.
    pub edges: u64,
    pub bytes: u64,
    pub seconds: f64,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, edges, bytes, seconds } = self;
        let (nodes, edges) = (counted(*nodes, "account", "accounts"), counted(*edges, "edge", "edges"));
        write!(f, "graph: {nodes}, {edges}, {} bytes, in {seconds:.1} s", grouped(*bytes))
    }
}

impl GraphExport {
    /// Writes it to standard output. `None`: the reader stopped reading, which is no error.
    pub async fn to_output(&self, stop: &Stop, progress: impl Fn(u64) + Sync) -> Result<Option<Drawn>, ExportError> {
        into_output(async |to| self.write(to, stop, progress).await).await
    }

    /// Writes it to a file; starts again after an interruption.
    pub async fn to_file(&self, path: &Path, stop: &Stop, progress: impl Fn(u64) + Sync) -> Result<Drawn, ExportError> {
        let note = Note::of(&self.request);
        into_file(path, note, false, async |to, _| self.write(to, stop, progress).await).await
    }

    async fn write(
        &self,
        to: &mut (impl Sink + Send),
        stop: &Stop,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Drawn, ExportError> {
        let (name, again) = (to.name().to_owned(), to.again());
        let failed = |why| ExportError::Write(name.clone(), why, again);
        let watch = Stopwatch::start();
        let mut file = GraphFile::new(self.format, self.wanted.at.is_some());
        let (mut bytes, mut failure) = (0, None);
        let mut visit = |part: GraphPart| {
            file.add(part);
            if file.markup.out.len() >= WRITTEN_BYTES {
                let ready = std::mem::take(&mut file.markup.out);
                bytes += ready.len() as u64;
                failure = to.write(&ready).err();
                progress(file.markup.nodes + file.markup.edges);
            }
            if failure.is_some() || stop.is_draining() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.graphs.graph(&self.wanted, &mut visit).await?;
        if let Some(why) = failure {
            return Err(failed(why));
        }
        if stop.is_draining() {
            return Err(ExportError::Stopped(file.markup.nodes + file.markup.edges, again));
        }
        let (last, nodes, edges) = file.finish();
        to.write(&last).map_err(failed)?;
        bytes += last.len() as u64;
        to.note(&Note { bytes, rows: nodes + edges, ..Note::of(&self.request) }).map_err(failed)?;
        progress(nodes + edges);
        Ok(Drawn { nodes, edges, bytes, seconds: watch.elapsed().as_secs_f64() })
    }
}

const NODE: [Attribute; 8] = [
    ("handle", "string"),
    ("name", "string"),
    ("state", "string"),
    ("followers", "long"),
    ("following", "long"),
    ("posts", "long"),
    ("read", "boolean"),
    ("given", "boolean"),
];
const EDGE: [Attribute; 9] = [
    ("list", "string"),
    ("appeared_after", "string"),
    ("appeared_by", "string"),
    ("followed_at", "string"),
    ("vanished_after", "string"),
    ("vanished_by", "string"),
    ("cause", "string"),
    ("intervals", "long"),
    ("surely", "boolean"),
];

struct GraphFile {
    markup: Markup,
    /// True if it is the graph of one moment.
    is_cut: bool,
    pair: Vec<Interval>,
}

impl GraphFile {
    fn new(format: GraphFormat, is_cut: bool) -> Self {
        let follows = Subject { name: "follows", nodes: &NODE, edges: &EDGE, is_dynamic: !is_cut };
        Self { markup: Markup::new(format, follows), is_cut, pair: Vec::new() }
    }

    fn add(&mut self, part: GraphPart) {
        match part {
            GraphPart::Node(node) => self.node(&node),
            GraphPart::Interval(interval) => {
                let is_same = |last: &Interval| {
                    (&last.follower, &last.followed, last.list)
                        == (&interval.follower, &interval.followed, interval.list)
                };
                if !self.pair.last().is_none_or(is_same) {
                    self.edge();
                }
                self.pair.push(interval);
            }
        }
    }

    fn node(&mut self, node: &Node) {
        let handle = node.handle.as_deref().filter(|handle| !handle.is_empty());
        let number = |count: Option<i64>| count.map(|count| count.to_string());
        let values = [
            handle.map(str::to_owned),
            node.display_name.clone(),
            node.state.clone(),
            number(node.followers),
            number(node.following),
            number(node.posts),
            Some(node.is_read.to_string()),
            Some(node.is_given.to_string()),
        ];
        self.markup.node(&node.id, handle.unwrap_or(&node.id), &values);
    }

    fn edge(&mut self) {
        let pair = std::mem::take(&mut self.pair);
        let (Some(first), Some(last)) = (pair.first(), pair.last()) else { return };
        let moment = |at: Option<i64>| at.map(time);
        let values = [
            Some(first.list.to_owned()),
            moment(first.edge.appeared_after),
            Some(time(first.edge.appeared_by)),
            moment(first.edge.followed_at),
            moment(last.edge.vanished_after),
            moment(last.edge.vanished_by),
            last.edge.cause.clone(),
            Some(pair.len().to_string()),
            self.is_cut.then(|| pair.iter().any(|interval| interval.surely).to_string()),
        ];
        let spells: Vec<_> = pair.iter().map(|interval| spell(&interval.edge)).collect();
        let (source, target) = (&first.follower, &first.followed);
        self.markup.edge(&MarkupEdge { source, target, weight: None, values: &values, spells: &spells });
    }

    fn finish(mut self) -> (Vec<u8>, u64, u64) {
        self.edge();
        self.markup.finish();
        (self.markup.out, self.markup.nodes, self.markup.edges)
    }
}

/// Returns the time in which pages show the edge.
fn spell(edge: &Edge) -> (String, Option<String>) {
    let start = edge.followed_at.unwrap_or(edge.appeared_by);
    // Between the request for a page and its answer, both ends are possible.
    let end = edge.vanished_after.map(|end| time(end.max(start)));
    (time(start), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(by: i64, vanished: Option<(i64, i64)>) -> Interval {
        let edge = Edge {
            owner: "2".to_owned(),
            member: "1".to_owned(),
            appeared_after: None,
            appeared_by: by,
            followed_at: None,
            vanished_after: vanished.map(|(after, _)| after),
            vanished_by: vanished.map(|(_, by)| by),
            cause: vanished.map(|_| "unfollowed".to_owned()),
        };
        Interval { follower: "1".to_owned(), followed: "2".to_owned(), list: "followers", surely: by > 5_000, edge }
    }

    fn file(format: GraphFormat, is_cut: bool) -> String {
        let mut file = GraphFile::new(format, is_cut);
        let name = "a<b> & \"c\"\u{1}\u{fffe}\n🦆".to_owned();
        file.add(GraphPart::Node(Node { id: "1".to_owned(), display_name: Some(name), ..Node::default() }));
        let known = Node { handle: Some("ann".to_owned()), followers: Some(7), is_read: true, ..Node::default() };
        file.add(GraphPart::Node(Node { id: "2".to_owned(), ..known }));
        file.add(GraphPart::Interval(interval(1_000, Some((2_000, 3_000)))));
        file.add(GraphPart::Interval(interval(9_000, None)));
        let other = Interval { follower: "2".to_owned(), followed: "1".to_owned(), ..interval(4_000, None) };
        file.add(GraphPart::Interval(other));
        let (out, nodes, edges) = file.finish();
        assert_eq!((nodes, edges), (2, 2));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn two_accounts_have_one_edge_with_a_spell_for_each_time() {
        let gexf = file(GraphFormat::Gexf, false);
        let edge = gexf.lines().find(|line| line.contains("source=\"1\"")).unwrap();
        for says in [
            "<edge id=\"0\" source=\"1\" target=\"2\">",
            "<attvalue for=\"intervals\" value=\"2\"/>",
            "<attvalue for=\"appeared_by\" value=\"1970-01-01T00:00:01.000Z\"/>",
            "<spells><spell start=\"1970-01-01T00:00:01.000Z\" end=\"1970-01-01T00:00:02.000Z\"/>\
             <spell start=\"1970-01-01T00:00:09.000Z\"/></spells>",
        ] {
            assert!(edge.contains(says), "{says}: {gexf}");
        }
        assert!(!edge.contains("vanished") && !edge.contains("surely"), "the last time goes on: {edge}");
        assert!(gexf.contains("mode=\"dynamic\" timeformat=\"date\""), "{gexf}");
        assert!(gexf.contains("value=\"a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}\u{fffd}&#10;🦆\""), "{gexf}");
        assert!(gexf.contains("label=\"ann\"") && gexf.contains("label=\"1\""), "{gexf}");
    }

    #[test]
    fn a_graph_of_one_moment_has_no_spells_and_says_what_is_sure() {
        let gexf = file(GraphFormat::Gexf, true);
        assert!(gexf.contains("mode=\"static\">") && !gexf.contains("spell"), "{gexf}");
        assert!(gexf.contains("for=\"surely\" value=\"true\"") && gexf.contains("for=\"surely\" value=\"false\""));
        let graphml = file(GraphFormat::Graphml, false);
        let edge = graphml.lines().find(|line| line.contains("source=\"1\"")).unwrap();
        assert!(edge.contains("<data key=\"edge.intervals\">2</data>"), "{graphml}");
        assert!(graphml.contains("<data key=\"label\">ann</data>"), "{graphml}");
    }
}
