//! Stand-in until the real one is merged.
#![allow(missing_docs)]
pub struct Named { pub country: String, pub said: String, pub strength: f64 }
pub struct Place { pub countries: Vec<Named> }
pub struct Gazetteer;
impl Gazetteer {
    pub fn shipped() -> &'static Self { &Self }
    pub fn judge(&self, _: &str) -> Place { Place { countries: Vec::new() } }
}
