"""Persons with any number of rows: every method protects all of them, and one row each changes nothing."""

import warnings
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from test_methods import CLASSIFIERS, METHODS, UNSUPERVISED, each_method, make, public_arrays

import fattail
from fattail import _kernels, audit
from fattail.privacy import Budget
from fattail.robust import Ball, Clip, Gram, Smooth
from fattail.robust import base as robust_base
from fattail.robust.histogram import Histogram, totals
from fattail.rows import persons as persons_module
from fattail.rows.data import PrivateData

PERSONS, ROWS = 300, 420
IDS = np.random.default_rng(2).permutation(np.concatenate([np.arange(PERSONS), np.arange(ROWS - PERSONS) // 3]))


def table(name, n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, 3))
    if name in UNSUPERVISED:
        return (X,)
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(2, n)
    return X, (y > 0).astype(int) if name in CLASSIFIERS else y


def fit(name, method, *data, person=None, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        return make(name, method, **{"epsilon": 3.0, **changes}).fit(*data, person=person)


def alike(first, second):
    first, second = public_arrays(first), public_arrays(second)
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k], equal_nan=True) for k in first)


def reordered(data, ids, seed):
    """The same rows in another order, in which persons come first in the same order as before."""
    leading = np.sort(np.unique(ids, return_index=True)[1])
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(ids)), leading))
    # Which of their rows comes first is another matter.
    order = np.concatenate([leading, rest])
    _, first = np.unique(ids[order], return_index=True)
    swap = {ids[order][k]: k for k in first}
    for k in range(len(leading), len(order)):
        if k % 2:
            lead = swap[ids[order[k]]]
            order[lead], order[k] = order[k], order[lead]
    return tuple(a[order] for a in data), ids[order]


@each_method
def test_one_row_each_is_the_fit_of_the_rows(name, method):
    data = table(name)
    names = np.random.default_rng(1).permutation(ROWS).astype(str)
    with_names = fit(name, method, *data, person=names)
    assert alike(fit(name, method, *data), with_names)
    assert with_names.privacy_.unit == "person" and with_names.privacy_.relation == "replace-one"


@each_method
def test_hostile_persons_never_exceed_a_declared_sensitivity(name, method):
    assert 0 < audit.fuzz_persons(lambda *d: fit(name, method, *d[:-1], person=d[-1]), table(name), IDS, trials=2, seed=5) <= 1


@pytest.mark.slow
@each_method
def test_many_hostile_persons_never_exceed_a_declared_sensitivity(name, method):
    for seed in range(3):
        data = table(name, seed=seed)
        assert audit.fuzz_persons(lambda *d: fit(name, method, *d[:-1], person=d[-1]), data, IDS, trials=25, seed=seed) <= 1


@each_method
def test_the_order_of_rows_does_not_matter(name, method):
    data = table(name)
    other, ids = reordered(data, IDS, seed=4)
    assert not np.array_equal(other[0], data[0])
    assert alike(fit(name, method, *data, person=IDS), fit(name, method, *other, person=ids))


def test_without_an_order_of_its_own_a_sum_depends_on_the_order_of_the_table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 1)) * 10.0 ** rng.integers(-8, 8, (4000, 1))
    ids = np.arange(4000) % 40

    def integers(data, who):
        return Clip(bound=1e9).mean(PrivateData(data, person=who))._value

    (other,), who = reordered((X,), ids, seed=1)
    assert np.array_equal(integers(X, ids), integers(other, who))
    with mock.patch.object(persons_module, "_canonical", lambda X, y, place, singles: np.argsort(place, kind="stable")):
        sums = [PrivateData(a, person=b).averages()._source._X for a, b in ((X, ids), (other, who))]
        assert not np.array_equal(*sums)


# --- planted faults -------------------------------------------------------------------------------


def every_row(block, V, r, center=0.0):
    return V, r


def whole_rows(codes, starts, unit, out):
    count = np.zeros_like(out)
    _kernels.cell_counts(codes, count)
    out += unit * count


def full_gram(V, r=None, c=None, inv_s=None, starts=None, gram=_kernels.exact_gram):
    return gram(V, r, c, inv_s)


@pytest.mark.parametrize(
    ("module", "attribute", "fault", "method"),
    [
        (robust_base, "per_person", every_row, "smoothed"),
        (_kernels, "person_cells", whole_rows, "clipped"),
        (_kernels, "exact_gram", full_gram, "auto"),
    ],
    ids=["rows are bounded one by one", "rows are counted one by one", "second moments are added up"],
)
def test_a_planted_fault_is_caught(module, attribute, fault, method):
    with mock.patch.object(module, attribute, fault):
        worst = audit.fuzz_persons(
            lambda *d: fit("DPLinearRegression", method, *d[:-1], person=d[-1]), table("DPLinearRegression"), IDS, trials=8
        )
    assert worst > 10


# --- what is added up -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bound", [Clip(bound=2.0), Ball(radius=2.0), Smooth(scale=2.0)], ids=["clip", "ball", "smooth"])
def test_contributions_are_averaged_then_bounded(bound, form):
    rng = np.random.default_rng(3)
    X = rng.standard_t(2, (500, 4)) * rng.integers(0, 2, (500, 4))
    ids = rng.integers(0, 60, 500)
    means = np.stack([X[ids == k].mean(axis=0) for k in np.unique(ids)])
    given = sparse.csr_array(X) if form == "csr" else X
    ours = bound.mean(PrivateData(given, person=ids))
    assert np.max(np.abs(ours._value - bound.mean(PrivateData(means))._value)) <= len(means)  # the last bits of an average
    assert ours.sensitivity == bound.mean(PrivateData(means)).sensitivity


def test_second_moments_are_averaged_over_a_persons_rows():
    rng = np.random.default_rng(4)
    X, ids = rng.standard_normal((600, 3)), rng.integers(0, 50, 600)
    gram = Gram(radius=3.0).mean(PrivateData(X, person=ids))
    rows = X * np.minimum(1.0, 3.0 / np.linalg.norm(X, axis=1))[:, None]
    expected = np.mean([rows[ids == k].T @ rows[ids == k] / np.sum(ids == k) for k in np.unique(ids)], axis=0)
    assert gram.unit * gram._value == pytest.approx(expected[np.triu_indices(3)], abs=1e-3)


def test_a_person_counts_once_in_every_histogram():
    rng = np.random.default_rng(5)
    X, ids = rng.uniform(0, 100, (5000, 2)), np.minimum(rng.zipf(1.5, 5000), 400)
    data, persons = PrivateData(X, person=ids), len(np.unique(ids))
    counts = Histogram(100, 2).counts(data, lambda block: block.X)
    assert np.array_equal(counts._value.sum(axis=1), np.full(2, persons * robust_base.ONE))
    exact = totals(data, (2, 100), lambda block: block.X)
    assert np.array_equal(exact.sum(axis=1), np.full(2, float(persons)))
    who = ids == np.bincount(ids).argmax()
    shares = np.bincount(X[who, 0].astype(int), minlength=100) / who.sum()
    alone = totals(PrivateData(X[who], person=ids[who]), (2, 100), lambda block: block.X)
    assert alone[0] == pytest.approx(shares, abs=2e-3)


def test_a_person_with_many_rows_weighs_no_more_than_another():
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.normal(10.0, 1.0, 4000), rng.normal(1000.0, 1.0, 4000)])[:, None]
    ids = np.concatenate([np.arange(4000), np.full(4000, 4000)])
    by_person = fattail.DPMean(random_state=0).fit(X, person=ids)
    assert 9.5 < by_person.mean_[0] < 10.5
    by_row = fattail.DPMean(random_state=0).fit(X)
    assert by_row.mean_[0] > 100


# --- forms ----------------------------------------------------------------------------------------


def frame():
    rng = np.random.default_rng(7)
    x = rng.standard_t(3, (600, 2))
    ids = np.char.add("p", rng.integers(0, 200, 600).astype(str))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, 2.0] + rng.normal(size=600), "who": ids})


def sources(table, folder):
    path = folder / "rows.parquet"
    table.to_parquet(path, row_group_size=50)
    dd = pytest.importorskip("dask.dataframe")
    return {
        "pandas": (table, "y", "who"),
        "ids as a series": (table.drop(columns="who"), "y", table["who"]),
        "polars": (pl.from_pandas(table), "y", "who"),
        "lazy": (pl.from_pandas(table).lazy(), "y", "who"),
        "parquet": (str(path), "y", "who"),
        "chunks": (lambda: (table[["a", "b"]].to_numpy()[k : k + 70] for k in range(0, 600, 70)), table["y"], table["who"]),
        "dask": (dd.from_pandas(table, npartitions=7), "y", "who"),
    }


def test_persons_are_brought_together_from_every_source(tmp_path):
    given = frame()
    X, y, ids = given[["a", "b"]].to_numpy(), given["y"].to_numpy(), given["who"].to_numpy()
    expected = fattail.DPLinearRegression(epsilon=3.0, random_state=0).fit(X, y, person=ids)
    for kind, (source, target, person) in sources(given, tmp_path).items():
        model = fattail.DPLinearRegression(epsilon=3.0, random_state=0).fit(source, target, person=person)
        assert np.array_equal(model.coef_, expected.coef_), kind
        assert model.n_features_in_ == 2, kind


def test_a_charge_for_persons_needs_an_account_of_its_own():
    X = np.random.default_rng(8).standard_t(3, (400, 1))
    account = Budget(10.0, 1e-3)
    fattail.DPMean(ledger=account).fit(X)
    with pytest.raises(ValueError, match="person"):
        fattail.DPMean(ledger=account).fit(X, person=np.arange(400))


def test_what_cannot_be_is_refused_without_an_id():
    X, y = np.zeros((6, 2)), np.zeros(6)
    model = fattail.DPLinearRegression()
    for person, words in [("id", "no named columns"), (["a-secret"] * 5, "6 rows and person has 5"), ([None] * 6, "no person")]:
        with pytest.raises(ValueError, match=words) as caught:
            model.fit(X, y, person=person)
        assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="pass person= to PrivateData"):
        model.fit(PrivateData(X, y), person=np.arange(6))


def test_every_estimator_takes_persons():
    assert {name for name, _ in METHODS} == {n for n in fattail.__all__ if hasattr(getattr(fattail, n), "fit")}
