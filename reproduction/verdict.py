"""One sentence per panel, written from its numbers."""

from __future__ import annotations

import numpy as np

from reproduction.claims import Check, factor
from reproduction.results import Results
from reproduction.spec import Floats


def checks(results: Results) -> list[Check]:
    """Every claim of the paper about this panel, decided."""
    return [claim.check(results) for claim in results.panel.claims]


def verdict(results: Results) -> str:
    """What the numbers say: calibrated against printed, auto against both, the price of privacy, the claims."""
    parts = [*_pairs(results), *_auto(results), *_price(results)]
    if not parts:
        return "Nothing was run."
    decided = [c for c in checks(results) if c.passed is not None and c.source == "paper"]
    if decided:
        parts.append(f"{sum(bool(c.passed) for c in decided)} of {len(decided)} of the paper's claims hold")
    sentence = "; ".join(parts) + "."
    return sentence[0].upper() + sentence[1:]


def _labels(results: Results, family: str) -> list[str]:
    return [m.label for m in results.panel.methods if m.family == family and len(results.medians(m.label))]


def _pairs(results: Results) -> list[str]:
    """Each algorithm as printed against the same algorithm calibrated."""
    out = []
    for printed in (m for m in results.panel.methods if m.family == "printed" and m.algorithm):
        for ours in (m for m in results.panel.methods if m.family == "calibrated" and m.algorithm == printed.algorithm):
            a, b = results.medians(ours.label), results.medians(printed.label)
            if len(a) and len(a) == len(b):
                flaw = f", which is not private ({printed.flaw})" if printed.flaw else ""
                out.append(f"{printed.algorithm} calibrated {_compare(factor(a, b))} its printed version{flaw}")
    return out


def _auto(results: Results) -> list[str]:
    calibrated = _labels(results, "calibrated")
    out = []
    for label in _labels(results, "auto"):
        a = results.medians(label)
        best = _best(results, [c for c in calibrated if len(results.medians(c)) == len(a)])
        if best is not None:
            out.append(f"{label} {_compare(factor(a, best))} the best calibrated method")
    return out


def _price(results: Results) -> list[str]:
    free = _labels(results, "not private")
    private = [m.label for m in results.panel.methods if m.private and len(results.medians(m.label))]
    if not free or not private:
        return []
    size = len(results.medians(free[0]))
    ours = _best(results, [p for p in private if len(results.medians(p)) == size])
    base = _best(results, [f for f in free if len(results.medians(f)) == size])
    if ours is None or base is None:
        return []
    ratio = factor(ours, base)
    size_of = "about" if 0.8 <= ratio <= 1.25 else f"{times(ratio)} times"
    return [f"the best private error is {size_of} that of the best method without privacy"]


def _best(results: Results, labels: list[str]) -> Floats | None:
    """Smallest median error at each point."""
    return np.min([results.medians(label) for label in labels], axis=0) if labels else None


def _compare(ratio: float) -> str:
    if ratio < 0.8:
        return f"has {times(1 / ratio)} times less error than"
    if ratio <= 1.25:
        return "agrees with"
    return f"has {times(ratio)} times the error of"


def times(ratio: float) -> str:
    """A ratio with two digits."""
    if ratio > 1e6:
        return "over a million"
    return f"{ratio:.2g}" if ratio < 99.5 else f"{round(ratio, 1 - int(np.log10(ratio))):,.0f}"
