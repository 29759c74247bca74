"""Record and replay every registered method on neighbors made to break it.

    python benchmarks/audit_recorder.py [--quick] [--only NAME]

``--quick`` takes a third of the neighbors of each method and writes nothing.

Each line of ``results/audit_recorder.csv`` is one pair of neighbors: the largest ratio of what it
spends to what was charged, the epsilon that all its releases spend together by our accountant and
by dp-accounting, and what refutes the claim, if anything does. See `fattail.audit.recorder`.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import fattail
from fattail import audit, catalog
from fattail.losses import Logistic, Loss
from fattail.privacy import Budget, events
from fattail.privacy.events import total_cost

RESULTS = Path(__file__).parent / "results" / "audit_recorder.csv"
EPSILON, DELTA = 1.0, 1e-5
UNSUPERVISED = tuple(e.name for e in catalog.entries() if e.target == "none")
CLASSIFIERS = (*(e.name for e in catalog.entries() if e.target == "labels"), "DPOwnLoss")
ROW = 5  # the one that is replaced
ROOM = 8  # accounts are larger than a fit, so that fits in several charges are not refused

Data = tuple[Any, ...]


class OwnLoss(Logistic):
    """The library's loss under another name, which ``auto`` treats like any loss of one's own."""


class DPOwnLoss(fattail.DPLogisticRegression):
    """An estimator of one's own."""

    def _loss(self) -> Loss:
        return OwnLoss()


OWN = {"DPOwnLoss": DPOwnLoss}


@dataclass(frozen=True)
class Target:
    """An estimator with public parameters."""

    estimator: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    table: str = ""
    """One of ``TABLES``, instead of the usual tables."""

    @property
    def name(self) -> str:
        options = (f"{k}={v}" for k, v in self.options.items())
        return "-".join([self.estimator, self.method, *options, *([self.table] if self.table else [])])

    @property
    def has_persons(self) -> bool:
        """Whether a person is protected: the last array of the data then holds ids."""
        return bool(self.options.get("person"))

    def fit(self, *data: Any) -> Any:
        """Fit with secure noise and an account of its own."""
        options = {
            "epsilon": EPSILON,
            "delta": DELTA,
            "method": self.method,
            # By default a missing cell is refused before the charge, which is the holder's check and not a release.
            **({} if self.estimator in MODELS_MISSING else {"missing": "zero"}),
            **({} if self.estimator in OWN else catalog.entry(self.estimator).example),
            **self.options,
        }
        *data, ids = data if options.pop("person", False) else (*data, None)
        estimator = OWN.get(self.estimator) or getattr(fattail, self.estimator)
        account = Budget(ROOM * options["epsilon"], ROOM * DELTA)
        return estimator(ledger=account, **options).fit(*data, **({} if ids is None else {"person": ids}))


# Whose missing cells belong to the model.
MODELS_MISSING = ("DPMissingCovariateRegression",)

DEEP = ("DPMean", "DPLinearRegression", "DPHuberRegressor", "DPLogisticRegression", "DPSparseRegressor", "DPSparseClassifier")
# Parameters that lead to code which no default does.
VARIANTS = (
    Target("DPMean", "trimmed", {"moment_bound": 200.0}),
    Target("DPMean", "truncated", {"moment_bound": 1.0}),
    Target("DPMean", "median_of_means", {"groups": 5}),
    Target("DPMean", "auto", {"missing": "drop"}),
    Target("DPLinearRegression", "auto", {"missing": "drop"}),
    Target("DPHuberRegressor", "smoothed", {"relation": "add-remove"}),
    Target("DPMean", "auto", {"relation": "add-remove"}),
    Target("DPLinearRegression", "auto", {"relation": "add-remove"}),
    Target("DPLinearRegression", "sample_aggregate", {"aggregation": "smooth"}),
    Target("DPLinearRegression", "clipped", {"batch_size": 60}),
    Target("DPLogisticRegression", "clipped", {"batch_size": 60}),
    Target("DPLinearRegression", "smoothed", {"splitting": True}),
    Target("DPLinearRegression", "median_of_means", {"splitting": True, "groups": 3}),
    Target("DPLinearRegression", "trimmed", {"splitting": True}),
    Target("DPHuberRegressor", "auto", {"fit_intercept": False}),
    Target("DPLinearRegression", "auto", {"radius": 1.0, "alpha": 0.1}),
    Target("DPSparseRegressor", "auto", {"sparsity": "auto"}),
    Target("DPSparseRegressor", "iht_truncated", {"peeling": "laplace"}),
    Target("DPSparseRegressor", "iht_huber", {"peeling": "laplace", "splitting": True}),
    Target("DPSparseClassifier", "ight", {"splitting": True}),
    Target("DPSparseRegressor", "knowledge_transfer", {"fit_intercept": False}),
    Target("DPGaussianMixture", "auto", {"n_components": 3}),
    Target("DPGaussianMixture", "auto", {"covariance_type": "diag"}),
    Target("DPGaussianMixture", "auto", {"symmetric": True}),
    Target("DPGaussianMixture", "smoothed", {"split": True}),
    Target("DPMixtureOfRegressions", "smoothed", {"split": True}),
    Target("DPMissingCovariateRegression", "auto", {"fit_intercept": False}),
    Target("DPOwnLoss", "auto"),
    # With a large epsilon few rows reach the releases that need many: second looks, parts of octaves, joint moments, projections.
    *(Target(name, "auto", {"epsilon": 200.0}) for name in DEEP),
    *(Target(name, "auto", {"epsilon": 200.0, "relation": "add-remove"}) for name in DEEP[:2]),
    *(Target(name, "auto", {"epsilon": 200.0, "person": True}) for name in DEEP),
)
# Tables that lead to releases which the usual ones, of 240 rows and three columns, do not.
SHAPED = (
    Target("DPMean", "auto", {"epsilon": 60.0}, "capped"),
    Target("DPMean", "auto", {"epsilon": 60.0, "relation": "add-remove"}, "capped"),
    Target("DPLinearRegression", "auto", {"epsilon": 4.0}, "rare columns"),
    Target("DPLinearRegression", "auto", {"epsilon": 8.0}, "many columns"),
    Target("DPLinearRegression", "auto", {"epsilon": 8.0, "relation": "add-remove"}, "many columns"),
    Target("DPSparseRegressor", "auto", {"epsilon": 20.0, "sparsity": 2}, "columns in one unit"),
    Target("DPSparseClassifier", "auto", {"epsilon": 20.0, "sparsity": 2}, "columns in one unit"),
    Target("DPSparseRegressor", "auto", {"epsilon": 2.0, "sparsity": "auto"}, "columns in one unit"),
    Target("DPSparseRegressor", "auto", {"epsilon": 20.0, "sparsity": "auto"}, "mixed units"),
    Target("DPSparseClassifier", "auto", {"epsilon": 50.0, "sparsity": "auto"}, "mixed units"),
    Target("DPLogisticRegression", "auto", {"epsilon": 20.0}, "rare labels"),
    Target("DPMean", "auto", {"epsilon": 8.0}, "many columns"),
    Target("DPMean", "trimmed", {"moment_bound": 200.0}, "two ends"),
    Target("DPMean", "trimmed", {"moment_bound": 200.0}, "growing"),
    Target("DPLinearRegression", "sample_aggregate", {"aggregation": "smooth", "epsilon": 8.0}, "wild"),
)


def targets() -> list[Target]:
    """Every registered method, for rows and for persons, and the variants."""
    registered = sorted({(estimator, m.name) for m in fattail.registry() for estimator in m.estimators})
    by_person = (Target(estimator, method, {"person": True}) for estimator, method in registered)
    return [*(Target(estimator, method) for estimator, method in registered), *VARIANTS, *SHAPED, *by_person]


def dataset(estimator: str, n: int = 240, seed: int = 2) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, 3))
    if estimator in UNSUPERVISED:
        return (X,)
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(2, n)
    return X, (y > 0).astype(int) if estimator in CLASSIFIERS else y


def replaced(data: Data, row: Any, y: float | None = None) -> Data:
    """A copy with another row, and another response or label if the data have one."""
    X = data[0].copy()
    X[ROW] = row
    if len(data) == 1:
        return (X,)
    t = data[1].copy()
    t[ROW] = 1 - t[ROW] if t.dtype.kind == "i" else y if y is not None else t[ROW]
    return X, t


Pair = tuple[str, Data, Data]


def values(estimator: str) -> Iterator[Pair]:
    """One row of a usual table becomes an extreme one."""
    data = dataset(estimator)
    signs = np.array([1.0, -1.0, 1.0])
    own = data[0][ROW]
    rows = {
        "huge": (1e308 * signs, -1e308),
        "opposite of huge": (-1e308 * signs, 1e308),
        "tiny": (5e-324 * signs, 5e-324),
        "zero": (np.zeros(3), 0.0),
        "one cell": ([1e6, 0.0, 0.0], 1e160),
        "half of the range": (1e160 * signs, -1e160),
        "2^53": (2.0**53 * signs, 2.0**53),
        "near copy": (own + 1e-12, None),
        "turned over": (-own, None),
        "moderate": (4.0 * signs, 20.0),
    }
    for name, (row, y) in rows.items():
        yield name, data, replaced(data, row, y)
    if len(data) == 2 and estimator not in CLASSIFIERS:
        yield "response only", data, replaced(data, own, 1e300)
    # From one end of a bound to the other one: an ordinary row is near the middle.
    for name, first, second in (
        ("huge for its opposite", 1e308 * signs, -1e308 * signs),
        ("one cell for another", [1e6, 0.0, 0.0], [0.0, 1e6, 0.0]),
    ):
        ours = replaced(data, first, 1e160)
        yield name, ours, replaced(ours, second, -1e160)


def tables(estimator: str) -> Iterator[Pair]:
    """One row of an unusual table becomes an extreme one."""
    X, *rest = dataset(estimator)
    order = np.argsort(X[:, 0], kind="stable")
    unusual: dict[str, Data] = {
        "point mass": (np.full_like(X, 7.0), *rest),
        "all zero": (np.zeros_like(X), *rest),
        "duplicates": tuple(np.repeat(a[:24], 10, axis=0) for a in (X, *rest)),
        "mixed units": (X * [1e12, 1.0, 1e-9], *rest),
        "copies of a column": (np.repeat(X[:, :1], 3, axis=1), *rest),
        "one cluster far away": (X + 1e9, *rest),
        "sorted": tuple(a[order] for a in (X, *rest)),
        "twelve rows": tuple(a[:12] for a in (X, *rest)),
        "columns of noughts and ones": ((X > 0).astype(float), *rest),
    }
    if estimator in CLASSIFIERS:
        unusual["one label"] = (X, np.zeros_like(rest[0]))
        unusual["separated"] = (X, (X[:, 0] > 0).astype(int))
    elif rest:
        unusual["constant response"] = (X, np.full_like(rest[0], 3.0))
        unusual["no noise"] = (X, X @ [2.0, -1.0, 0.0])
    for name, data in unusual.items():
        yield name, data, replaced(data, [1e9, -1e9, 1e9], -1e9)
        yield f"{name}, gently", data, replaced(data, [1.0, 2.0, -3.0], 2.5)


def stream(arrays: Data, first: Data | None = None) -> Data:
    """Chunks of 50 rows; the first may be from another table."""

    def factory() -> Iterator[Any]:
        for k in range(0, arrays[0].shape[0], 50):
            chunk = tuple(a[k : k + 50] for a in (arrays if k or first is None else first))
            yield chunk if len(chunk) > 1 else chunk[0]

    return (factory,)


def streams(estimator: str) -> Iterator[Pair]:
    """Chunks, whose cells are not looked at beforehand: anything may be in them."""
    data = dataset(estimator)
    for name, row, y in (
        ("NaN", np.full(3, np.nan), math.nan),
        ("infinity", np.array([np.inf, -np.inf, np.inf]), -math.inf),
        ("one NaN", np.array([0.5, np.nan, 1e300]), 1e300),
    ):
        yield f"stream, {name}", stream(data), stream(replaced(data, row, y))
    if estimator == "DPMissingCovariateRegression":
        yield "missing cells", data, replaced(data, [np.nan, 1.0, np.nan], 3.0)
        yield "missing row", data, replaced(data, np.full(3, np.nan), -1e300)


def duplicated(X: np.ndarray, row: int, values: Sequence[float]) -> Any:
    """CSR in which one row stores each of its cells many times over, with these values."""
    n, d = X.shape
    lengths = np.full(n, d)
    lengths[row] = d * len(values)
    data, indices = X.ravel(), np.tile(np.arange(d), n)
    before, after = row * d, (row + 1) * d
    data = np.concatenate([data[:before], np.repeat(values, d), data[after:]])
    indices = np.concatenate([indices[:before], np.tile(np.arange(d), len(values)), indices[after:]])
    return sparse.csr_matrix((data, indices, np.concatenate(([0], np.cumsum(lengths)))), shape=X.shape)


def on_the_edge(shape: tuple[int, int]) -> np.ndarray:
    """Rows in single precision with a length just below 1, or not below it if their squares are rounded to single precision."""
    a = np.random.default_rng(0).random(1000).astype(np.float32)
    b = np.sqrt(1 - a.astype(np.float64) ** 2).astype(np.float32)
    exact = a.astype(np.float64) ** 2 + b.astype(np.float64) ** 2
    k = np.flatnonzero((exact < 1) & (np.float64(1) * a**2 + b**2 >= 1))[0]
    return np.broadcast_to(np.concatenate([[a[k], b[k]], np.zeros(shape[1] - 2)]), shape)


def sparse_rows(estimator: str) -> Iterator[Pair]:
    X, *rest = dataset(estimator)
    plain = sparse.csr_matrix(X)
    yield "CSR, duplicates", (plain, *rest), (duplicated(X, ROW, 3000 * [1.0]), *rest)
    yield "CSR, canceling duplicates", (plain, *rest), (duplicated(X, ROW, [1e308, -1e308]), *rest)
    # In memory a sum beyond the floats is refused, as infinity is; a stream is not looked at beforehand.
    overflowing = duplicated(X, ROW, [1e308, 1e308])
    yield "CSR stream, overflowing duplicates", stream((plain, *rest)), stream((overflowing, *rest))
    edge = on_the_edge(X.shape)
    single, wider = (sparse.csr_matrix(edge, dtype=dtype) for dtype in (np.float32, np.float64))
    yield "CSR stream, another precision", stream((single, *rest)), stream((single, *rest), (wider, *rest))
    stored = X * (np.abs(X) > 1)
    zeros = sparse.csr_matrix((stored.ravel(), np.tile(np.arange(3), len(X)), 3 * np.arange(len(X) + 1)), shape=X.shape)
    yield "CSR, stored zeros", (sparse.csr_matrix(stored), *rest), (zeros, *rest)
    ours = replaced((X, *rest), [1e6, 0.0, 0.0], 1e160)
    theirs = replaced(ours, [0.0, 1e6, 0.0], -1e160)
    yield "CSR, one cell for another", *((sparse.csr_matrix(a), *b) for a, *b in (ours, theirs))
    yield "CSR, huge", (plain, *rest), (sparse.csr_matrix(replaced((X,), [1e308, -1e308, 0.0])[0]), *rest)


def persons(estimator: str) -> Iterator[Pair]:
    """One person's rows become others, few or many; the person's first row stays where it is, and so do all codes."""
    data = dataset(estimator)
    n, signs = len(data[0]), np.array([1.0, -1.0, 1.0])
    ids = np.where(np.arange(n) < 180, np.arange(n) // 3, 1000 + np.arange(n))  # three rows each, or one
    own = np.flatnonzero(ids == ids[ROW])
    for name, row, y, count in (
        ("one huge row", 1e308 * signs, -1e308, 1),
        ("many huge rows", 1e308 * signs, -1e308, 400),
        ("many moderate rows", 4.0 * signs, 20.0, 400),
        ("two tiny rows", 5e-324 * signs, 5e-324, 2),
    ):
        kept = np.setdiff1d(np.arange(n), own[1:])
        changed = [np.concatenate([a[kept], np.repeat(a[own[:1]], count - 1, axis=0)]) for a in (*data, ids)]
        mine = changed[-1] == ids[ROW]
        changed[0][mine] = row * np.where(np.arange(mine.sum()) % 3, 1.0, -1e-3)[:, None]
        if len(data) == 2:
            changed[1][mine] = 1 - changed[1][mine] if estimator in CLASSIFIERS else y
        yield name, (*data, ids), tuple(changed)
    for kind in (np.float64, np.float32):
        X, more = data[0].astype(kind), [np.concatenate([a, a[:1]]) for a in data[1:]]
        second = (np.concatenate([X, -X[:1]]), *more, np.append(np.arange(n), 0))
        yield f"one person has a second row, {kind.__name__}", (X, *data[1:], np.arange(n)), second


def many_columns(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(3, (240, 24))


def rare_columns(rng: np.random.Generator) -> np.ndarray:
    """Mostly indicators that are too rare to have a unit of their own."""
    return np.concatenate([rng.standard_t(3, (240, 4)), rng.random((240, 20)) < 0.02], axis=1)


TABLES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "capped": lambda rng: np.insert(np.minimum(rng.exponential(size=(600, 1)), 1.5), ROW, 1.5, axis=0),
    "rare columns": rare_columns,
    "rare labels": lambda rng: rng.standard_t(3, (600, 3)),
    "many columns": many_columns,
    "columns in one unit": lambda rng: rng.uniform(-1, 1, (240, 12)),
    "mixed units": lambda rng: (rng.standard_t(3, (240, 6)) + 10) * 10.0 ** np.arange(-3, 3),
    "two ends": lambda rng: np.where(np.arange(240) % 2, 1e300, -1e300)[:, None],
    "growing": lambda rng: -np.append(np.zeros(180), 262 * np.exp(0.1 * np.arange(60)))[:, None],
    "wild": lambda rng: rng.standard_t(3, (240, 3)) * np.exp(3 * rng.normal(size=(240, 1))),
}


def shaped(target: Target) -> Iterator[Pair]:
    """One row of such a table becomes another. A row of usual length with a huge response moves joint moments the most."""
    rng = np.random.default_rng(5)
    X = TABLES[target.table](rng)
    signs, own = np.where(np.arange(X.shape[1]) % 2, 1.0, -1.0), X[ROW]
    data: Data = (X,)
    if target.estimator not in UNSUPERVISED:
        y = 2 * X[:, 0] - X[:, 1] + rng.standard_t(2, len(X))
        if target.table == "rare labels":
            y -= np.quantile(y, 0.95)
        elif target.table == "wild":  # fits to parts of the rows lie far apart
            y *= rng.choice([-1, 1], len(X)) * np.exp(4 * rng.normal(size=len(X)))
        data = X, (y > 0).astype(int) if target.estimator in CLASSIFIERS else y
    rows = {
        "huge": (1e308 * signs, -1e308),
        "moderate": (4 * signs, 20.0),
        "own, huge response": (own, 1e300),
        "doubled, huge response": (2 * own, -1e300),
        "ordinary": (1.4 * np.abs(signs), 0.5),
        "zero": (0 * signs, 20.0),
        "nearer": (0.85 * own, 0.5),
        "opposite of huge": (-1e308 * signs, 1e308),
        "last cell": (np.append(0 * own[1:], 20.0), 20.0),  # the response does not depend on it
    }
    for name, (row, y) in rows.items():
        yield name, data, replaced(data, row, y)
    ours = replaced(data, 2 * own, 1e300)
    yield "one end for the other", ours, replaced(ours, -2 * own, -1e300)
    ours = replaced(data, np.append(8.0, 0 * own[1:]), 1e300)
    yield "one cell for another", ours, replaced(ours, np.append(0 * own[1:], 8.0), -1e300)


GROUPS: tuple[Callable[[str], Iterator[Pair]], ...] = (values, tables, streams, sparse_rows)


def pairs(target: Target) -> Iterator[Pair]:
    """All neighbors for a target: tables with a replaced row, or with one row more if that is what is protected."""
    groups = (persons,) if target.has_persons else GROUPS
    for every in (shaped(target),) if target.table else (group(target.estimator) for group in groups):
        for name, data, neighbor in every:
            if target.options.get("relation") != "add-remove":
                yield name, data, neighbor
            elif (larger := appended(data, neighbor)) is not None:
                yield name, data, larger


def appended(data: Data, neighbor: Data) -> Data | None:
    """``data`` and, as the last row, the one row of ``neighbor`` that differs; None for streams and where several rows differ."""
    if any(callable(part) or part.shape != other.shape for part, other in zip(data, neighbor, strict=True)):
        return None
    plain = [[a.toarray() if sparse.issparse(a) else np.asarray(a) for a in part] for part in (data, neighbor)]
    same = [np.all((a == b) | (a != a) & (b != b), axis=tuple(range(1, a.ndim))) for a, b in zip(*plain, strict=True)]
    (rows,) = np.nonzero(~np.all(same, axis=0))
    if rows.size != 1:
        return None
    both = zip(data, neighbor, strict=True)
    return tuple(sparse.vstack([a, b[rows]], "csr") if sparse.issparse(a) else np.concatenate([a, b[rows]]) for a, b in both)


def audited(target: Target, data: Data, neighbor: Data) -> audit.Finding:
    with np.errstate(all="ignore"):
        return audit.record_and_replay(target.fit, data, neighbor)


def by_dp_accounting(spent: tuple[events.Event, ...], delta: float) -> float:
    """The same spending as an epsilon by dp-accounting, from loss distributions.

    It knows no selections: these are entered as pure releases, as the Gaussian releases that dominate them, or as
    zero-concentrated ones, whichever is best. Releases of which only the latter is known go through its Renyi
    accountant. Subsampling is left to the tests of events.
    """
    if any(isinstance(e, events.SubsampledGaussianEvent) for e in spent):
        return math.nan
    picks = [e for e in spent if isinstance(e, events.BoundedRange)]
    rest = tuple(e for e in spent if not isinstance(e, events.BoundedRange))
    dominating = tuple(events.GaussianEvent(1 / math.sqrt(e.cost().pure_mu2)) for e in picks)
    pure = tuple(events.Pure(e.eta, e.count) for e in picks)
    concentrated = tuple(events.ZeroConcentrated(e.cost().pure_rho) for e in picks)
    return min(_composed(rest + part, delta) for part in ((dominating, pure, concentrated) if picks else ((),)))


def _composed(spent: tuple[events.Event, ...], delta: float) -> float:
    from dp_accounting import dp_event, rdp
    from dp_accounting.pld import privacy_loss_distribution as pld

    cost = total_cost(e for e in spent if not isinstance(e, events.Approximate))
    basic = sum(e.count * e.epsilon for e in spent if isinstance(e, events.Approximate))
    if cost.rho:
        accountant = rdp.RdpAccountant()
        accountant.compose(dp_event.ZCDpEvent(cost.rho + cost.mu2 / 2 + cost.pure_rho))
        return float(accountant.get_epsilon(delta)) + basic
    parts = [_pure(pld, e.epsilon).self_compose(e.count) for e in spent if isinstance(e, events.Pure)]
    if cost.mu2:
        parts.append(pld.from_gaussian_mechanism(1 / math.sqrt(cost.mu2), value_discretization_interval=1e-3))
    if not parts:
        return basic
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta)) + basic


def _pure(pld: Any, epsilon: float) -> Any:
    parameters = pld.common.DifferentialPrivacyParameters(epsilon, 0.0)
    return pld.from_privacy_parameters(parameters, value_discretization_interval=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a third of the neighbors of each method; nothing is written")
    parser.add_argument("--only", default="", help="methods whose name contains this; nothing is written")
    options = parser.parse_args()
    only, every = options.only, 3 if options.quick else 1
    lines, bad = [], 0
    for k, target in enumerate(targets()):
        if only not in target.name:
            continue
        attacked = False
        for name, data, neighbor in islice(pairs(target), k % every, None, every):
            finding = audited(target, data, neighbor)
            second = by_dp_accounting(finding.spent, DELTA) if finding.claim else math.nan
            outcome = "refused" if finding.claim is None and not finding.violations else "; ".join(finding.violations)
            attacked |= outcome != "refused"
            bad += bool(finding.violations)
            lines.append(
                [
                    target.name,
                    name,
                    len(finding.releases) - 1,
                    f"{finding.ratio:.6f}",
                    f"{finding.epsilon:.4f}",
                    f"{second:.4f}",
                    outcome,
                ]
            )
            if finding.violations:
                print(target.name, "|", name, "|", outcome[:400], flush=True)
        if not attacked:
            bad += 1
            print(target.name, "| every pair was refused, so nothing was attacked", flush=True)
    print(f"{len(lines)} pairs, {bad} with violations")
    if not only and every == 1:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["method", "neighbors", "releases", "ratio", "epsilon", "epsilon_dp_accounting", "violations"])
            writer.writerows(lines)
    raise SystemExit(int(bad > 0))


if __name__ == "__main__":
    main()
