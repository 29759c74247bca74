"""The promise is for a table as a multiset: the order in which its rows are kept changes nothing.

Two orders of a table are compared under labels that follow the rows, since the labels of either are equally likely.
"""

from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from scipy import sparse

import fattail
from fattail import audit
from fattail.robust.blocks import block_estimates
from fattail.rows import order as labels_module
from fattail.rows.data import PrivateData
from fattail.rows.order import SecretOrder
from listed import CLASSIFIERS, DENSE, METHODS, UNSUPERVISED, example

N, D = 1003, 5
LINEAR = ("smoothed", "median_of_means", "trimmed", "clipped")
SPARSE = ("iht_huber", "iht_l1", "iht_squared", "iht_truncated", "ight", "frank_wolfe")

# Methods that look at parts of the rows, with the options that make them do so.
IN_PARTS = [
    *((name, "auto", {}) for name in ("DPLinearRegression", "DPHuberRegressor", "DPLogisticRegression")),
    *(("DPLinearRegression", method, {"splitting": True}) for method in LINEAR),
    *(("DPSparseRegressor", method, {"splitting": True}) for method in SPARSE),
    ("DPLinearRegression", "median_of_means", {"groups": 3}),
    ("DPLinearRegression", "median_of_means", {"groups": 3, "splitting": True}),
    ("DPLinearRegression", "sample_aggregate", {}),
    ("DPLinearRegression", "sample_aggregate", {"aggregation": "smooth"}),
    ("DPSparseRegressor", "two_stage", {}),
    ("DPMean", "median_of_means", {"groups": 5}),
    ("DPMean", "local", {}),
    ("DPMean", "local", {"moment_bound": 9.0}),
    *((name, "smoothed", {"split": True}) for name in DENSE),
]
IDS = ["-".join([name, method, *map(str, options)]) for name, method, options in IN_PARTS]


@pytest.fixture(autouse=True)
def _early_steps_on_parts(monkeypatch):
    """`auto` leaves rows out only of large tables."""
    monkeypatch.setattr("fattail.algorithms.auto.least_squares.SAMPLE_ROWS", 150)


@contextmanager
def labeled(given):
    """Every position has the label that the test gives it."""
    with mock.patch.object(SecretOrder, "_drawn", lambda self, start, stop, purpose: given[start:stop]):
        yield


def table(name, seed=0):
    """A table kept sorted by its first column, as most are by something, and its labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (N, D)) @ np.diag([1.0, 30.0, 1.0, 0.1, 1.0])
    X = X[np.argsort(X[:, 0])]
    given = rng.integers(0, 2**64, N, dtype=np.uint64)
    if name in UNSUPERVISED:
        return X, given
    y = X[:, 0] * 3 - X[:, 2] + rng.standard_t(2, N)
    return X, (y > 0).astype(int) if name in CLASSIFIERS else y, given


def fit(name, method, form=np.asarray, **options):
    options |= example(name)

    def run(X, *rest):
        *y, given = rest
        with labeled(given):
            getattr(fattail, name)(epsilon=8.0, method=method, random_state=3, **options).fit(form(X), *y)

    return run


def permuted(data, seed=1):
    order = np.random.default_rng(seed).permutation(N)
    return tuple(a[order] for a in data)


def shifted(data):
    """The smallest row becomes the largest, so that every other one moves up by one place; labels follow the rows."""
    other = tuple(np.roll(a, -1, axis=0) for a in data)
    other[0][-1] = 1e4
    if len(other) > 2:
        other[1][-1] = 1 - other[1][-1] if other[1].dtype.kind == "i" else -1e4
    return other


pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")


def differing(run, data, other):
    return {step.name: step.ratio for step in audit.replay(run, data, other) if step.ratio}


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{e}-{m}" for e, m in METHODS])
def test_rows_in_another_order_give_the_same_releases(name, method):
    data = table(name)
    assert not differing(fit(name, method), data, permuted(data))


@pytest.mark.parametrize(("name", "method", "options"), IN_PARTS, ids=IDS)
def test_parts_follow_the_labels_and_not_the_order(name, method, options):
    data = table(name)
    assert not differing(fit(name, method, **options), data, permuted(data))


@pytest.mark.parametrize("form", ["csr", "float32", "fortran"])
@pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{e}-{m}" for e, m in METHODS])
@pytest.mark.slow
def test_rows_in_another_order_and_form_give_the_same_releases(name, method, form):
    if form == "csr" and name in DENSE:
        pytest.skip("takes dense rows only")
    make = {"csr": sparse.csr_array, "float32": np.float32, "fortran": np.asfortranarray}[form]
    for seed in range(3):
        data = table(name, seed)
        data[0][np.random.default_rng(seed).random((N, D)) < 0.3] = 0.0
        assert not differing(fit(name, method, make), data, permuted(data, seed))


@pytest.mark.parametrize(("name", "method", "options"), IN_PARTS, ids=IDS)
def test_a_replaced_row_of_a_sorted_table_moves_no_release_by_more_than_its_sensitivity(name, method, options):
    data = table(name)
    run = fit(name, method, **options)
    for other in (shifted(data), permuted(shifted(data))):
        assert max(step.ratio for step in audit.replay(run, data, other)) <= 1


def by_position(run, fixed):
    """The planted fault: labels that stay with the positions, whatever rows stand there."""
    return lambda *arrays: run(*arrays[:-1], fixed)


@pytest.mark.parametrize(("name", "method", "options"), IN_PARTS, ids=IDS)
def test_parts_by_position_are_caught(name, method, options):
    data = table(name)
    run = fit(name, method, **options)
    if options.keys() & {"splitting", "split"} or method in ("auto", "local"):
        # One row is replaced, and all others of a sorted table move by one place.
        steps = audit.replay(by_position(run, data[-1]), data, shifted(data))
    elif method == "sample_aggregate":
        return  # all fits move, but their mean hardly does: see the next test
    else:
        steps = audit.replay(by_position(run, np.arange(N, dtype=np.uint64) << np.uint64(50)), data, permuted(shifted(data)))
    assert max(step.ratio for step in steps) > 1


@pytest.mark.parametrize(("fault", "most"), [(False, 1), (True, 20)])
def test_one_block_of_twenty_knows_of_a_replaced_row(fault, most):
    def estimates(X, given):
        with labeled(given):
            blocks = SecretOrder(b"", N).folds(20)
            return block_estimates(PrivateData(X), blocks, lambda b: b.X, lambda rows, _: rows.mean(axis=0), D)._source._X

    X, given = table("DPMean")
    other, moved = permuted(shifted((X, given)))
    changed = np.any(estimates(X, given) != estimates(other, given if fault else moved), axis=1)
    assert np.sum(changed) == most


@pytest.mark.parametrize("stretch", [1 << 20, 100])
@pytest.mark.parametrize("count", [1, 2, 7, N])
def test_folds_are_disjoint_and_cover_all_rows(count, stretch, monkeypatch):
    monkeypatch.setattr(labels_module, "STRETCH", stretch)
    monkeypatch.setattr(labels_module, "HELD", N if stretch > N else 0)
    folds = SecretOrder(b"x" * 32, N).folds(count)
    assert sorted(np.concatenate([fold.positions() for fold in folds])) == list(range(N))
    assert {len(fold.positions()) - len(fold) for fold in folds} == {0}
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for fold in folds[:3]:
        pieces = [a + fold.within(a, min(a + 37, N)) for a in range(0, N, 37)]
        assert np.array_equal(np.concatenate(pieces), np.sort(fold.positions()))


def test_rows_that_share_a_label_share_a_fold():
    given = np.repeat(np.arange(40, dtype=np.uint64) << np.uint64(50), 5)
    with labeled(given):
        folds = SecretOrder(b"", 200).folds(3)
        sizes = [len(fold) for fold in folds]
        parts = [fold.within(0, 199) for fold in folds]  # not all rows at once, as in a stream
    assert sizes == [65, 65, 70] and sum(map(len, parts)) == 199
    assert not set(given[parts[0]]) & set(given[parts[1]]) and not set(given[parts[1]]) & set(given[parts[2]])


def test_labels_depend_on_the_key_and_are_fresh_for_every_fit():
    first, second = (fattail.privacy.Curator(1.0, 1e-6).subset(N, 50).positions() for _ in range(2))
    assert not np.array_equal(first, second)
    seeded = [fattail.privacy.Curator(1.0, 1e-6, random_state=s).subset(N, 50).positions() for s in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])
