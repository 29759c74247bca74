"""The number of rows kept private: one row more or fewer changes no method's releases by more than it declares."""

import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_methods import METHODS, make
from test_person_fits import IDS, table

import fattail
from fattail import audit
from fattail.audit.replays import hostile_cells
from fattail.privacy import Budget
from fattail.privacy.accounts import covers
from fattail.privacy.events import total_cost
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import PrivateData
from fattail.rows.order import SecretOrder

NEED_N = {"trimmed", "local", "knowledge_transfer", "two_stage"}
SERVED = [(name, method) for name, method in METHODS if method not in NEED_N]
each_served = pytest.mark.parametrize(("name", "method"), SERVED, ids=[f"{e}-{m}" for e, m in SERVED])
SPLIT = {
    "DPLinearRegression": {"splitting": True},
    "DPSparseRegressor": {"splitting": True},
    "DPGaussianMixture": {"split": True},
}


def fit(name, method, *data, person=None, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        options = {"epsilon": 3.0, "relation": "add-remove", **changes}
        return make(name, method, **options).fit(*data, person=person)


def one_more(data, rng, count=1):
    return tuple(np.concatenate([a, hostile_cells(a, count, rng)]) for a in data)


def worst(run, data, larger):
    return max(step.ratio for pair in ((data, larger), (larger, data)) for step in audit.replay(run, *pair))


@each_served
def test_one_row_more_never_exceeds_a_declared_sensitivity(name, method):
    data = table(name)
    larger = one_more(data, np.random.default_rng(1))
    assert 0 < worst(lambda *d: fit(name, method, *d), data, larger) <= 1


@each_served
def test_one_person_more_never_exceeds_a_declared_sensitivity(name, method):
    data = table(name)
    larger = (*one_more(data, np.random.default_rng(2), 50), np.append(IDS, np.full(50, 10**6)))
    run = lambda *d: fit(name, method, *d[:-1], person=d[-1])  # noqa: E731
    assert 0 < worst(run, (*data, IDS), larger) <= 1


@each_served
@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("persons", [False, True])
def test_a_table_without_rows_is_fitted_like_any_other(name, method, missing, persons):
    """Where the number of rows is private, an error would say that it is zero, or how small it is."""
    if missing == "drop" and name == "DPMissingCovariateRegression":
        return  # models its missing cells
    cells = [np.full_like(a[:3], np.nan, dtype=float) if missing == "drop" else a[:0] for a in table(name)]
    relation = "replace-one" if missing == "drop" else "add-remove"
    person = np.arange(len(cells[0])) if persons else None
    fitted = fit(name, method, *cells, person=person, missing=missing, relation=relation)
    assert fitted.privacy_.releases[0].name.startswith("number of")


def test_sources_without_rows_are_read_like_any_other(tmp_path):
    empty = pa.table({"x": np.zeros(0), "y": np.zeros(0), "who": np.zeros(0, dtype=int)})
    path = tmp_path / "empty.parquet"
    pq.write_table(empty, path)
    arrays = np.zeros((0, 1)), np.zeros(0)
    stream = lambda: [arrays]  # noqa: E731
    for X, y, person in ((path, "y", "who"), (empty, "y", "who"), (path, "y", np.zeros(0)), (stream, None, None)):
        for relation in ("add-remove", "replace-one"):
            model = fattail.DPLinearRegression(relation=relation)
            if relation == "add-remove":
                with pytest.warns(fattail.UtilityWarning):
                    assert model.fit(X, y, person=person).privacy_.unit == ("row" if person is None else "person")
            else:
                with pytest.raises(ValueError, match="Found"):
                    model.fit(X, y, person=person)


@pytest.mark.parametrize("name", SPLIT)
def test_of_disjoint_folds_one_alone_changes(name):
    data, method = table(name), {"DPLinearRegression": "clipped", "DPSparseRegressor": "iht_huber"}.get(name, "smoothed")
    larger = one_more(data, np.random.default_rng(3))
    run = lambda *d: fit(name, method, *d, n_iter=4, **SPLIT[name])  # noqa: E731
    assert worst(run, data, larger) <= 1
    # Edges by ranks of the true number of rows: every fold gives a row to the next, though all sizes are as announced.
    cut = SecretOrder.cut

    def by_rank(self, ranks):
        true = cut(SecretOrder(self._key, rows[-1]), [k * rows[-1] // self.n for k in ranks])
        return tuple(replace(f, _low=t._low, _high=t._high) for f, t in zip(cut(self, ranks), true, strict=True))

    rows = []
    with mock.patch.object(SecretOrder, "cut", by_rank):
        assert worst(lambda *d: (rows.append(len(d[0])), run(*d))[1], data, larger) > 1


@pytest.mark.parametrize(("name", "method"), [m for m in METHODS if m[1] in NEED_N])
def test_a_method_that_needs_n_says_what_does_not(name, method):
    with pytest.raises(ValueError, match="these methods do not need it: auto"):
        make(name, method, relation="add-remove").fit(*table(name))


def test_a_divisor_that_knows_the_rows_is_caught():
    data = table("DPMean")
    larger = one_more(data, np.random.default_rng(4))
    size = lambda self, rows=None: self._source.n  # noqa: E731
    with mock.patch.object(PrivateData, "size", size):
        assert worst(lambda *d: fit("DPMean", "truncated", *d), data, larger) == np.inf


@each_served
def test_reports_and_accounts_know_the_relation(name, method):
    account = Budget(3.0, 1e-5)
    report = fit(name, method, *table(name), ledger=account).privacy_
    assert report.relation == "add-remove" and (report.epsilon, report.delta) == (3.0, 1e-5)
    assert report.epsilon_spent <= 3.0 and sum(r.share for r in report.releases) == pytest.approx(1)
    assert report.releases[0].name == "number of rows"
    (charge,) = account.history
    assert covers(total_cost(charge.events), total_cost(report.events))
    with pytest.raises(ValueError, match="account of its own"):
        fit(name, method, *table(name), ledger=account, relation="replace-one")


def test_an_empty_fold_adds_nothing():
    data = PrivateData(np.ones((3, 2))).counted(1000, 1.0, swing=0.5)
    folds = SecretOrder(bytes(32), 1000, by_label=True).folds(200)
    sums = [sum_over_blocks(data, lambda block: np.rint(block.X).astype(np.int64).sum(axis=0), fold) for fold in folds]
    assert np.sum(sums) == 6 and len(folds[0]) == 5


def test_only_the_relations_that_exist():
    with pytest.raises(ValueError, match="relation must be one of replace-one, add-remove"):
        fattail.DPMean(relation="replace").fit(np.zeros((3, 1)))
