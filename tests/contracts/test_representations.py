"""One table, many physical forms: the same integers into every noise, the same artifacts, the same promise.

Recorded and replayed with `fattail.audit.record_and_replay`: between two forms of one table nothing may move
at all, and between two neighbors in one form nothing by more than was charged for it.
"""

import warnings

import numpy as np
import pytest
from scipy import sparse

import fattail
from fattail import audit
from forms import FORMS, SPARSE, STREAMS, labels, table
from listed import CLASSIFIERS, METHODS, UNSUPERVISED, example

DENSE = ("DPGaussianMixture", "DPMixtureOfRegressions", "DPMissingCovariateRegression")
# A report for each row, in their order: other rows, other reports.
LOCAL = "local"
# What holds names of columns, which are part of the schema and not of the values.
NAMES = {"attribute feature_names_in_", "model file", "card", "pickle", "attribute classes"}


def fit(name, method):
    options = example(name)

    def fitted(*data):
        return getattr(fattail, name)(epsilon=4.0, delta=1e-5, method=method, **options).fit(*data)

    return fitted


def rows(name, binary=False):
    X, y = table(120, 3, binary=binary)
    if name in UNSUPERVISED:
        return X, None
    return X, labels(y) if name in CLASSIFIERS else y


def written(form, X, y, folder):
    """The table in a form, as arguments of ``fit``."""
    folder.mkdir(parents=True)
    X, y = FORMS[form](X, y, folder)
    return (X,) if y is None else (X, y)


def compared(name, method, form, folder):
    """A form with the plain array, or the plain CSR matrix, of the same table."""
    X, y = rows(name, binary=form == "bool")
    plain = "CSR" if form in SPARSE else "C order"
    return audit.record_and_replay(fit(name, method), written(plain, X, y, folder / "a"), written(form, X, y, folder / "b"))


def is_taken(name, method, form):
    """Whether a method reads this form: mixtures take dense rows, order statistics rows in memory."""
    if form in STREAMS and method in getattr(fattail, name)._at_once:
        return False
    return form not in SPARSE or name not in DENSE


def check_same(name, method, form, folder):
    finding = compared(name, method, form, folder)
    if not is_taken(name, method, form):
        assert finding.claim is None or finding.escapes == ("error",)  # by its type: the plain form may be taken
        return
    different = set(finding.escapes) - NAMES
    assert finding.claim and not finding.diverged and finding.ratio == 0 and not different, (form, finding.violations)


def check_neighbors(name, method, form, folder, seed=0):
    """One row becomes another that the form can hold."""
    X, y = rows(name, binary=form == "bool")
    rng = np.random.default_rng(seed)
    i = int(rng.integers(len(X)))
    other, response = X.copy(), None if y is None else y.copy()
    other[i] = 1 - X[i] if form == "bool" else rng.choice([-(2.0**14), 0.0, 1.0, 2.0**14], X.shape[1])
    if form == "pandas, mixed types":
        other[i, -1] = 1 - X[i, -1]
    if response is not None:
        response[i] = 1 - y[i] if name in CLASSIFIERS else 2.0**14 * rng.choice([-1, 1])
    data, neighbor = written(form, X, y, folder / "c"), written(form, other, response, folder / "d")
    finding = audit.record_and_replay(fit(name, method), data, neighbor)
    assert finding.violations == () and (finding.claim is not None) == is_taken(name, method, form), form


# Each form with one method by default, of those that are fast and differ; all with all take half an hour.
QUICK = [
    ("DPMean", "truncated"),
    ("DPLinearRegression", "clipped"),
    ("DPSparseRegressor", "iht_huber"),
    ("DPLogisticRegression", "median_of_means"),
    ("DPSparseClassifier", "auto"),
    ("DPMixtureOfRegressions", "smoothed"),
    ("DPLinearRegression", "sample_aggregate"),
    ("DPSparseRegressor", "knowledge_transfer"),
]
PAIRS = [(form, *QUICK[k % len(QUICK)]) for k, form in enumerate(FORMS)]
EVERY = [(form, name, method) for form in FORMS for name, method in METHODS]


@pytest.mark.parametrize(("form", "name", "method"), PAIRS, ids=["-".join(p) for p in PAIRS])
def test_a_form_changes_nothing(form, name, method, tmp_path):
    check_same(name, method, form, tmp_path)
    check_neighbors(name, method, form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "name", "method"), EVERY, ids=["-".join(p) for p in EVERY])
def test_no_form_changes_anything_for_any_method(form, name, method, tmp_path):
    check_same(name, method, form, tmp_path)
    check_neighbors(name, method, form, tmp_path, seed=1)


@pytest.mark.parametrize(("name", "method"), METHODS, ids=["-".join(m) for m in METHODS])
def test_at_least_25_forms_are_taken(name, method):
    """That they are is a matter of the other tests here."""
    assert sum(is_taken(name, method, form) for form in FORMS) >= 25


@pytest.mark.parametrize("name", sorted({name for name, _ in METHODS}))
def test_every_estimator_fits_every_form_that_it_takes(name, tmp_path):
    method = next(m for n, m in [*QUICK, *METHODS] if n == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, form in enumerate(form for form in FORMS if is_taken(name, method, form)):
            fit(name, method)(*written(form, *rows(name, binary=form == "bool"), tmp_path / str(k)))


# Sums of squares that cross an octave when they are rounded to single precision.
SQUARES = [("DPSparseRegressor", "auto"), ("DPSparseClassifier", "auto"), ("DPSparseRegressor", "ight")]
FRACTIONS = [pytest.param(*m, id="-".join(m), marks=[pytest.mark.slow] * (m not in [*QUICK, *SQUARES])) for m in METHODS]


@pytest.mark.parametrize(("name", "method"), FRACTIONS)
def test_single_precision_is_how_rows_are_stored_and_not_how_they_are_computed_with(name, method):
    """Numbers that need all digits of single precision: their products need more."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.0, (120, 3)).astype(np.float32)
    X[0], X[rng.random(X.shape) < 0.2] = (1e30, -1e25, 1e-40), 0.0
    y = () if name in UNSUPERVISED else (X[:, 0] + rng.standard_t(2.0, len(X)),)
    y = tuple(map(labels, y)) if name in CLASSIFIERS else y
    for form in (np.asarray, np.asfortranarray, sparse.csr_array):
        finding = audit.record_and_replay(fit(name, method), (form(X.astype(np.float64)), *y), (form(X), *y))
        assert finding.ratio == 0 and finding.violations == ()


@pytest.mark.parametrize(("name", "method"), SQUARES[:2], ids=lambda v: v)
def test_a_row_that_decides_in_which_precision_others_are_stored_moves_nobody_else(name, method):
    """All rows have a length just below 1, but not if their squares are rounded to single precision."""
    a = np.random.default_rng(0).random(1000).astype(np.float32)
    b = np.sqrt(1 - a.astype(np.float64) ** 2).astype(np.float32)
    exact = a.astype(np.float64) ** 2 + b.astype(np.float64) ** 2
    k = np.flatnonzero((exact < 1) & ((a**2).astype(np.float64) + b**2 >= 1) & (a**2 + b**2 >= 1))[0]
    X = np.tile([a[k], b[k]], (200, 1))
    y = np.tile([0, 1], 100)

    def stream(dtype):
        return (lambda: iter([(sparse.csr_array(X[:100]), y[:100]), (sparse.csr_array(X[100:], dtype=dtype), y[100:])]),)

    finding = audit.record_and_replay(fit(name, method), stream(np.float32), stream(np.float64))
    assert finding.claim and finding.ratio == 0 and finding.violations == ()


ORDERED = [pytest.param(*m, id="-".join(m), marks=[pytest.mark.slow] * (m not in QUICK)) for m in METHODS if m[1] != LOCAL]


@pytest.mark.parametrize(("name", "method"), ORDERED)
def test_the_order_of_rows_changes_nothing(name, method):
    X, y = rows(name)
    order = np.argsort(X[:, 0], kind="stable")
    data, moved = ((X,), (X[order],)) if y is None else ((X, y), (X[order], y[order]))
    finding = audit.record_and_replay(fit(name, method), data, moved, order)
    assert finding.ratio == 0 and finding.violations == ()


@pytest.mark.parametrize(("name", "method"), ORDERED)
def test_a_row_of_a_sorted_table_that_moves_shifts_nobody_else(name, method):
    """The first of a sorted table becomes the last: everybody in between moves up by one."""
    X, y = rows(name)
    first = np.argsort(X[:, 0], kind="stable")
    X, y = X[first], None if y is None else y[first]
    order = np.roll(np.arange(len(X)), -1)
    other = X[order].copy()
    other[-1] = X[-1] + 1
    data, moved = ((X,), (other,)) if y is None else ((X, y), (other, y[order]))
    assert audit.record_and_replay(fit(name, method), data, moved, order).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DPLinearRegression", "DPLogisticRegression"])
def test_subsets_of_many_sorted_rows_shift_nobody_else(name):
    """With so many rows the first steps take some of them."""
    n, rng = 400_000, np.random.default_rng(0)
    X = np.column_stack([np.sort(rng.standard_t(3, n)), rng.standard_t(3, n)])
    y = X @ [2.0, -1.0] + rng.standard_t(2, n)
    y = labels(y) if name in CLASSIFIERS else y
    order = np.roll(np.arange(n), -1)
    other = X[order].copy()
    other[-1] = X[-1, 0] + 1, 5.0
    assert audit.record_and_replay(fit(name, "auto"), (X, y), (other, y[order]), order).violations == ()
