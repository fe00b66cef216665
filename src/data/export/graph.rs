//! The graph of follows as a file.
//!
//! Each pair of accounts has one edge, from the follower to the followed account. A spell in GEXF starts with the follow if the network
//! states its time, else with the first page that showed the edge. It ends with the last such page, and is open if the edge still exists.
//! The bounds of the true start and end are attributes.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::format::format_time;
use super::graph_markup::{Attribute, GraphFormat, GraphReport, GraphSchema, Markup, MarkupEdge};
use super::{ExportError, ExportNote, Sink, write_to};
use engine::base::clock::Stopwatch;
use engine::base::shutdown::Stop;
use store::{Edge, FollowInterval, GraphFilter, GraphPart, Graphs, Node};

#[derive(Debug)]
pub struct GraphExport {
    pub graphs: Arc<dyn Graphs>,
    pub wanted: GraphFilter,
    /// The selection in the caller's words.
    pub request: String,
    pub format: GraphFormat,
}

impl GraphExport {
    /// Writes to a file or to standard output; starts over after an interruption. `None`: the reader of standard output
    /// stopped reading, which is no error.
    pub async fn write_to(
        &self,
        file: Option<&Path>,
        stop: &Stop,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Option<GraphReport>, ExportError> {
        let write = async |to: &mut Sink, _| self.write(to, stop, progress).await;
        write_to(file, ExportNote::new(&self.request), false, write).await
    }

    async fn write(
        &self,
        to: &mut Sink,
        stop: &Stop,
        progress: impl Fn(u64) + Sync,
    ) -> Result<GraphReport, ExportError> {
        let (name, rerun_effect) = (to.name().to_owned(), to.rerun_effect());
        let failed = |why| ExportError::Write(name.clone(), why, rerun_effect);
        let watch = Stopwatch::start();
        let mut file = GraphFile::new(self.format, self.wanted.at.is_some());
        let mut failure = None;
        let mut visit = |part: GraphPart| {
            file.add(part);
            match file.markup.write_ready(to) {
                Ok(true) => progress(file.markup.element_count()),
                Ok(false) => {}
                Err(why) => failure = Some(why),
            }
            if failure.is_some() || stop.is_draining() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.graphs.graph(&self.wanted, &mut visit).await?;
        if let Some(why) = failure {
            return Err(failed(why));
        }
        if stop.is_draining() {
            return Err(ExportError::Stopped(file.markup.element_count(), rerun_effect));
        }
        let drawn = file.into_markup().finish(to, &self.request, &watch).map_err(failed)?;
        progress(drawn.nodes + drawn.edges);
        Ok(drawn)
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
    is_one_moment: bool,
    pair: Vec<FollowInterval>,
}

impl GraphFile {
    fn new(format: GraphFormat, is_one_moment: bool) -> Self {
        let follows = GraphSchema { name: "follows", nodes: &NODE, edges: &EDGE, is_dynamic: !is_one_moment };
        Self { markup: Markup::new(format, follows), is_one_moment, pair: Vec::new() }
    }

    fn add(&mut self, part: GraphPart) {
        match part {
            GraphPart::Node(node) => self.add_node(&node),
            GraphPart::Interval(interval) => {
                let is_same = |last: &FollowInterval| {
                    (&last.follower, &last.followed, last.list)
                        == (&interval.follower, &interval.followed, interval.list)
                };
                if !self.pair.last().is_none_or(is_same) {
                    self.add_edge();
                }
                self.pair.push(interval);
            }
        }
    }

    fn add_node(&mut self, node: &Node) {
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
        self.markup.add_node(&node.id, handle.unwrap_or(&node.id), &values);
    }

    fn add_edge(&mut self) {
        let pair = std::mem::take(&mut self.pair);
        let (Some(first), Some(last)) = (pair.first(), pair.last()) else { return };
        let moment = |at: Option<i64>| at.map(format_time);
        let values = [
            Some(first.list.to_owned()),
            moment(first.edge.appeared_after),
            Some(format_time(first.edge.appeared_by)),
            moment(first.edge.followed_at),
            moment(last.edge.vanished_after),
            moment(last.edge.vanished_by),
            last.edge.cause.clone(),
            Some(pair.len().to_string()),
            self.is_one_moment.then(|| pair.iter().any(|interval| interval.surely).to_string()),
        ];
        let spells: Vec<_> = pair.iter().map(|interval| spell(&interval.edge)).collect();
        let (source, target) = (&first.follower, &first.followed);
        self.markup.add_edge(&MarkupEdge { source, target, weight: None, values: &values, spells: &spells });
    }

    fn into_markup(mut self) -> Markup {
        self.add_edge();
        self.markup
    }
}

/// Returns the start and the end of the time in which pages show the edge.
fn spell(edge: &Edge) -> (String, Option<String>) {
    let start = edge.followed_at.unwrap_or(edge.appeared_by);
    // Between the request for a page and its answer, both ends are possible.
    let end = edge.vanished_after.map(|end| format_time(end.max(start)));
    (format_time(start), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(by: i64, vanished: Option<(i64, i64)>) -> FollowInterval {
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
        FollowInterval {
            follower: "1".to_owned(),
            followed: "2".to_owned(),
            list: "followers",
            surely: by > 5_000,
            edge,
        }
    }

    fn file(format: GraphFormat, is_one_moment: bool) -> String {
        let mut file = GraphFile::new(format, is_one_moment);
        let name = "a<b> & \"c\"\u{1}\u{fffe}\n🦆".to_owned();
        file.add(GraphPart::Node(Node { id: "1".to_owned(), display_name: Some(name), ..Node::default() }));
        let known = Node { handle: Some("ann".to_owned()), followers: Some(7), is_read: true, ..Node::default() };
        file.add(GraphPart::Node(Node { id: "2".to_owned(), ..known }));
        file.add(GraphPart::Interval(interval(1_000, Some((2_000, 3_000)))));
        file.add(GraphPart::Interval(interval(9_000, None)));
        let other = FollowInterval { follower: "2".to_owned(), followed: "1".to_owned(), ..interval(4_000, None) };
        file.add(GraphPart::Interval(other));
        let (out, nodes, edges) = file.into_markup().into_text();
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
