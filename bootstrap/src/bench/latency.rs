use super::ground::Ground;
use super::measure::Plan;
use super::report::Figure;
use crate::Failure;
use crate::progress::Progress;
pub(super) async fn measure(_plan: &Plan, _ground: &Ground, _progress: &Progress) -> Result<Vec<Figure>, Failure> { Ok(Vec::new()) }
