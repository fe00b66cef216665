//! Stand-in until the real one is merged.
#![allow(missing_docs)]
#[derive(Debug, Clone, Copy)]
pub struct Detected { pub language: &'static str, pub confidence: f64 }
pub fn detect(_: &str) -> Option<Detected> { None }
#[derive(Debug, Clone, Copy)]
pub struct Weight;
#[derive(Debug, Clone)]
pub struct Verdict { pub score: f64, pub label: Option<String> }
#[derive(Debug, Clone)]
pub struct Variants;
impl Variants {
    pub fn shipped() -> &'static Self { &Self }
    pub fn parse(_: &str) -> Result<Self, String> { Ok(Self) }
    pub fn to_text(&self) -> String { String::new() }
    pub fn language(&self) -> &str { "pt" }
    pub fn labels(&self) -> [&str; 2] { ["pt-PT", "pt-BR"] }
    pub fn weigh(&self, _: &str) -> Weight { Weight }
    pub fn judge(&self, _: impl Iterator<Item = Weight>) -> Verdict { Verdict { score: 0.0, label: None } }
}
