"""Attacks on our own claims.

Two kinds. *Replay* runs a fit on a dataset and on its neighbor, feeding the second run the
releases of the first, and compares every unreleased value with its declared sensitivity:
this is exact, and covers everything that passes the curator. *Lower bounds* run a fit many times on
two neighbors and turn the accuracy of a distinguisher into an epsilon that the truth
exceeds with a stated confidence. The distinguisher may see the fitted numbers (`attack`), or
all that the claim covers (`transcript_attack`): every release, each weighed by its likelihood
under either dataset, which no other attack on these two datasets can beat.
"""

from fattail.audit.attacks import (
    LowerBound,
    attack,
    coarse_draws,
    known_order,
    lattice_attack,
    lower_bound,
    tradeoff,
    transcript_attack,
    weakened,
)
from fattail.audit.findings import Finding, Spending
from fattail.audit.likelihood import privacy_loss
from fattail.audit.recorder import record_and_replay
from fattail.audit.replays import Dataset, Step, fuzz, fuzz_persons, hostile_rows, moved, replay
from fattail.audit.robustifiers import check_robustifier

__all__ = [
    "Dataset",
    "Finding",
    "LowerBound",
    "Spending",
    "Step",
    "attack",
    "check_robustifier",
    "coarse_draws",
    "fuzz",
    "fuzz_persons",
    "hostile_rows",
    "known_order",
    "lattice_attack",
    "lower_bound",
    "moved",
    "privacy_loss",
    "record_and_replay",
    "replay",
    "tradeoff",
    "transcript_attack",
    "weakened",
]
