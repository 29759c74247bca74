"""Neighbors that move a method's releases as far as they can, for ``audit.py`` and the tests.

For each method: public parameters under which little budget goes elsewhere, and pairs of
datasets that differ in one row. Rows other than the canary add nothing, or hold a median, a
tie or an order statistic in place, so that all of a release's sensitivity is used. Where the best
size of the canary depends on private units, several are offered; `worst_pair` takes the pair
that moves most in a replay, with seeds of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import fattail
from fattail import audit, catalog

DELTA = 1e-5
BIG = 1e9
Dataset = tuple[np.ndarray, ...]
Pair = tuple[Dataset, Dataset]


@dataclass(frozen=True)
class Case:
    """One attacked configuration of a method."""

    estimator: str
    method: str
    options: dict[str, Any]
    pairs: tuple[Pair, ...] = field(repr=False)
    why: str = ""
    """What keeps the attack from using the whole budget, if anything does."""

    @property
    def name(self) -> str:
        return f"{self.estimator}-{self.method}"

    def make(self, seed: int, epsilon: float) -> Any:
        options = {"epsilon": epsilon, "delta": DELTA, "method": self.method, **self.options}
        return getattr(fattail, self.estimator)(**options, random_state=seed)


def fitted(case: Case, epsilon: float, seed: int, *data: np.ndarray) -> Any:
    with warnings.catch_warnings(), audit.known_order():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        return case.make(seed, epsilon).fit(*data)


def worst_pair(case: Case, epsilon: float, seeds: int = 3) -> tuple[int, float]:
    """Number of the pair that uses most of the budget, and the share of it that it uses (root mean square)."""

    def used(pair: Pair) -> float:
        return float(np.mean([audit.moved(audit.replay(partial(fitted, case, epsilon, 10**6 + s), *pair)) for s in range(seeds)]))

    shares = [used(pair) for pair in case.pairs]
    best = int(np.argmax(shares))
    return best, shares[best]


def changed(base: Dataset, *rows: tuple[Any, ...]) -> Pair:
    """A dataset twice, with its first row replaced by either of two."""
    pair = []
    for row in rows:
        arrays = tuple(a.copy() for a in base)
        for array, value in zip(arrays, row, strict=True):
            array[0] = value
        pair.append(arrays)
    return pair[0], pair[1]


def means() -> Iterator[Case]:
    few, zeros, known = 45, np.zeros((45, 1)), {"moment_bound": 1.0}
    opposite = changed((zeros,), (BIG,), (-BIG,))
    for method in ("truncated", "smoothed", "local"):
        yield Case("DPMean", method, known, (opposite,))
    # Groups of 15 rows: the first holds the canary and lies between the other two. Truncation drops what is beyond it.
    held = np.repeat([0.0, -1.0, 1.0], few // 3)[:, None]
    sizes = np.geomspace(0.6, 2.6, 30)
    pairs = tuple(changed((size * held,), (size,), (-size,)) for size in sizes)
    yield Case("DPMean", "median_of_means", {**known, "groups": 3}, pairs)
    # Half of the rows at either end: the order statistics at the cut are as far apart as they can be.
    halves = np.where(np.arange(few) % 2, BIG, -BIG)[:, None]
    yield Case("DPMean", "trimmed", known, (changed((halves,), (BIG,), (-BIG,)),))
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(400, 1))
    yield Case(
        "DPMean", "auto", {}, (changed((spread,), (BIG,), (-BIG,)),), "selections of location and scale move less than they may"
    )


def linear() -> Iterator[Case]:
    """Rows of zeros leave the intercept alone, where a response or label at either end pulls at the clip in every step."""
    n = 45
    X, y, quick = np.zeros((n, 1)), np.zeros(n), {"n_iter": 2}
    for estimator in catalog.Offered("linear").names():
        label = catalog.entry(estimator).target == "labels"
        ends = (0, 1) if label else (-BIG, BIG)
        y = np.arange(n) % 2 if label else np.zeros(n)
        flips = tuple(changed((X, y), (size, ends[0]), (size, ends[1])) for size in (0.0, 2.0))
        yield Case(estimator, "clipped", {"clip": 1e-3, **quick}, flips)
        yield Case(estimator, "smoothed", {"moment_bound": 1e-8, **quick}, flips)
        held = np.repeat([ends[0], *ends], n // 3)
        grouped = tuple(changed((X, held), (size, ends[0]), (size, ends[1])) for size in (0.0, 2.0))
        yield Case(estimator, "median_of_means", {"moment_bound": 1e-8, "groups": 3, **quick}, grouped)
        far = {"threshold": 1e12} if estimator == "DPHuberRegressor" else {}
        # A label's gradient is far below the bound, which counts until enough rows are trimmed.
        rows, trim = (600, 250) if label else (n, 5)
        halves = np.arange(rows) % 2 if label else np.where(np.arange(rows) % 2, 1e12, -1e12)
        ordered = tuple(changed((np.zeros((rows, 1)), halves), (size, halves[0]), (size, halves[1])) for size in (0.0, 2.0))
        yield Case(estimator, "trimmed", {"trim": trim, **far, **quick}, ordered)
        # One row per block: its fit is the row's own.
        pair = changed((X[:6], y[:6]), (0.0, ends[0]), (0.0, ends[1]))
        yield Case(estimator, "sample_aggregate", {"blocks": 6}, (pair,))
        rng = np.random.default_rng(1)
        Z = rng.normal(size=(1000, 1))
        z = (Z[:, 0] + rng.logistic(size=1000) > 0).astype(int) if label else Z[:, 0] + rng.normal(size=1000)
        pairs = [
            changed((base, t), (size, ends[0]), (size, ends[1])) for base, t in ((X, y), (Z, z)) for size in (0.0, 2.0, 4.0, 8.0)
        ]
        if not label:
            pairs += [changed((Z, z), (size, -BIG), (-size, BIG)) for size in (2.0, 4.0, 8.0)]
        else:
            pairs += [changed((Z, z), (size, 0), (-size, 0)) for size in (2.0, 4.0, 8.0)]
            pairs += mistaken(rng.normal(size=(1000, 3)), (1.0, 2.0, 4.0))
        yield Case(
            estimator, "auto", {}, tuple(pairs), "counts of columns, lengths and residuals share the budget and move in few cells"
        )


def sparse() -> Iterator[Case]:
    """Two columns tie, held up by a few rows; the canary lifts one and lowers the other."""
    n = 60
    known = {"sparsity": 1, "fit_intercept": False, "feature_clip": 1.0, "response_clip": 1.0, "n_iter": 1}
    for estimator in catalog.Offered("sparse").names():
        label = catalog.entry(estimator).target == "labels"
        ends = (0, 1) if label else (-BIG, BIG)
        X, y = np.zeros((n, 2)), np.full(n, ends[1])
        X[1:5] = 1.0
        ties = tuple(changed((X, y), ([s, -s], ends[0]), ([s, -s], ends[1])) for s in (0.999999, 2.0, BIG))
        # Truncation drops what is beyond its bound, so products stop just before it.
        near = tuple(
            changed((X, y if label else np.full(n, r)), ([s, -s], 0 if label else -r), ([s, -s], 1 if label else r))
            for r in (0.5, 0.999999, 1.999999)
            for s in (0.5, 0.999999, 1.999999)
        )
        for method in ("iht_truncated",) if label else ("iht_truncated", "iht_huber", "iht_l1", "iht_squared"):
            yield Case(estimator, method, known, (*ties, *near))
        # Of the classifier's methods, the others have no response to clip.
        told = {k: v for k, v in known.items() if not (label and k == "response_clip")}
        alone = np.zeros((n, 1))
        flips = tuple(changed((alone, y), (s, ends[0]), (s, ends[1])) for s in (0.999999, 2.0, BIG))
        yield Case(estimator, "frank_wolfe", {**told, "radius": 1.0}, flips)
        # Enough rows that the length which gradients are clipped to is theirs.
        ones, same = np.ones((400, 1)), np.full(400, 1)
        yield Case(estimator, "ight", told, tuple(changed((ones, same), (s, ends[0]), (s, ends[1])) for s in (8.0, 100.0)))
        # Blocks of about eight rows vote; the first is decided by the canary, which is alone in it.
        teacher = {k: v for k, v in told.items() if k != "n_iter"}
        block = np.zeros((n, 2))
        votes = tuple(changed((block, y), ([s, 0.0], ends[0]), ([0.0, s], ends[1])) for s in (2.0, BIG))
        yield Case(
            estimator, "two_stage", teacher, (*votes, *ties, *flips_of(block, y, ends)), "the teacher's contraction is not tight"
        )
        yield Case(
            estimator, "knowledge_transfer", teacher, (*ties, *flips_of(block, y, ends)), "the teacher's contraction is not tight"
        )
        rng = np.random.default_rng(2)
        Z = rng.uniform(-1, 1, (2500, 4))
        z = (Z[:, 0] > 0).astype(int) if label else Z[:, 0] + Z[:, 1] + 0.1 * rng.standard_t(2, 2500)
        bases = ((Z, z), (np.ones((2500, 2)), np.full(2500, 1)))
        pairs = [changed((base, t), (row, ends[0]), (row, ends[1])) for base, t in bases for row in corners(base.shape[1])]
        if label:
            pairs = [*pairs[:3], *mistaken(Z, (2.0, 10.0))]
        yield Case(
            estimator,
            "auto",
            {"sparsity": 1},
            tuple(pairs),
            "scales, screening and moments share the budget and move less than they may",
        )


def mistaken(X: np.ndarray, sizes: tuple[float, ...]) -> list[Pair]:
    """Rows that the fit is sure to take for the other label, turned over in the columns that do not matter.

    Another label moves a gradient by the length of its row, this by nearly twice as much.
    """
    y, others = (X[:, 0] > 0).astype(int), X.shape[1] - 1
    rows = [
        [np.append(size, np.full(others, sign * lean * size / np.sqrt(others))) for sign in (1, -1)]
        for size in sizes
        for lean in (2.0, 3.0, 4.0)
    ]
    return [changed((X, y), (a, 0), (b, 0)) for a, b in rows]


def flips_of(X: np.ndarray, y: np.ndarray, ends: tuple[Any, Any]) -> list[Pair]:
    return [changed((X, y), (row, ends[0]), (row, ends[1])) for row in corners(X.shape[1])]


def corners(d: int) -> list[np.ndarray]:
    return [s * row for s in (0.999999, 2.0, BIG) for row in (np.ones(d), np.where(np.arange(d) % 2, -1.0, 1.0), np.eye(d)[0])]


def latent() -> Iterator[Case]:
    """Gradients that are even in a row are turned over by its part across the start."""
    n, d = 45, 5
    start = np.eye(d)[0]
    across = [
        (np.append(a, np.full(d - 1, s)), np.append(a, np.full(d - 1, -s))) for a in (0.5, 1.0, 3.0) for s in (3.0, 30.0, 1e6)
    ]
    known = {"noise_scale": 1.0, "init": start, "n_iter": 1}
    bounds = {"clipped": {"clip": 0.1}, "smoothed": {"moment_bound": 1e-6}, "local": {"moment_bound": 1e-6}}
    for method, options in bounds.items():
        rows = 1 if method == "local" else n  # a local claim is about one row's own report
        X, y = np.zeros((rows, d)), np.zeros(rows)
        mixture = tuple(changed((X,), (a,), (b,)) for a, b in across)
        pairs = tuple(changed((X, y), (a, t), (b, t)) for a, b in across for t in (1.0, 10.0, BIG))
        flips = tuple(changed((X, y), (a, BIG), (a, -BIG)) for a, _ in across)
        why = "coordinates along the start, and the excess, stay" if method != "clipped" else ""
        yield Case("DPGaussianMixture", method, {**known, **options}, mixture, why)
        yield Case("DPMixtureOfRegressions", method, {**known, **options}, pairs, why)
        yield Case("DPMissingCovariateRegression", method, {**known, **options}, (*flips, *pairs), why)
    why = "units, start and moments share the budget and move less than they may"
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(600, 2)) + 3 * rng.choice([-1, 1], 600)[:, None]
    turned = [([s, s], [s, -s]) for s in (3.0, 30.0, BIG)] + [([BIG, 0.0], [0.0, BIG])]
    turned += [([s, s], [-s, -s]) for s in (30.0, BIG)] + [([s, -s], [-s, s]) for s in (10.0, 30.0, 1e3, BIG)]
    yield Case("DPGaussianMixture", "auto", {"symmetric": True}, tuple(changed((Z,), (a,), (b,)) for a, b in turned), why)
    yield Case("DPGaussianMixture", "auto", {"n_components": 1}, tuple(changed((Z,), (a,), (b,)) for a, b in turned), why)
    z = Z[:, 0] * rng.choice([-1, 1], 600)
    both = [changed((Z, z), (a, t), (b, -t)) for a, b in turned for t in (3.0, BIG)]
    both += [changed((Z, z), (a, t), (a, -t)) for a, _ in turned for t in (3.0, BIG)]
    for estimator in ("DPMixtureOfRegressions", "DPMissingCovariateRegression"):
        yield Case(estimator, "auto", {}, tuple(both), why)


def cases() -> list[Case]:
    """All methods of the registry, or an error that names those without neighbors."""
    found = [*means(), *linear(), *sparse(), *latent()]
    missing = {(e, m.name) for m in fattail.registry() for e in m.estimators} - {(c.estimator, c.method) for c in found}
    if missing:
        raise LookupError(f"no neighbors to attack {sorted(missing)} with")
    return found
