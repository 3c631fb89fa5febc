//! The figures of merit of figures 4 to 11.

use super::super::errors::errors;
use crate::harness::{Figure, Range, Rows, Table};

/// Returns the least and the greatest error over all places and policies.
fn ends(data: &Table) -> Vec<f64> {
    let Range { least, greatest } = errors(data.rows());
    vec![least, greatest]
}

pub(super) const WRR: &[Figure] = &[Figure { claim: "gr3-fig4-wrr", of: ends }];
pub(super) const WFQ: &[Figure] = &[Figure { claim: "gr3-fig5-wfq", of: ends }];
pub(super) const SFQ: &[Figure] = &[Figure { claim: "gr3-fig6-sfq", of: ends }];
pub(super) const VTRR: &[Figure] = &[Figure { claim: "gr3-fig7-vtrr", of: ends }];
pub(super) const SRR: &[Figure] = &[Figure { claim: "gr3-fig8-srr", of: ends }];
pub(super) const GR3: &[Figure] = &[Figure { claim: "gr3-fig9-gr3", of: ends }];
pub(super) const WF2Q_PLUS: &[Figure] = &[Figure { claim: "gr3-wf2q-bounds", of: ends }];
pub(super) const GR3MP: &[Figure] = &[
    Figure {
        claim: "gr3-fig10-gr3mp",
        of: |data| {
            let Range { least, greatest } = errors(data.rows_of("policy", "gr3mp"));
            vec![least, greatest]
        },
    },
    Figure {
        claim: "gr3-fig10-better-than-one",
        of: |data| {
            let span = |policy| errors(data.rows_of("policy", policy)).span();
            vec![span("gr3") / span("gr3mp")]
        },
    },
];
pub(super) const QUEUE_DRAWS: &[Figure] =
    &[Figure { claim: "gr3-fig11-draws", of: |data| vec![data.rows().most("queue_draws_max")] }];
