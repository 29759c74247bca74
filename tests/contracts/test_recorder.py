"""Every method recorded and replayed on hostile neighbors; every known kind of bug planted, and caught."""

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy import sparse

import fattail
from fattail import audit
from fattail.audit.recorder import observed
from fattail.audit.tape import Tape
from fattail.privacy import Bounded, Budget, Curator, Gaussian, Laplace
from fattail.privacy.mechanisms import SmoothNoise
from fattail.privacy.noise import SecureNoise

PATH = Path(__file__).parents[2] / "benchmarks" / "audit_recorder.py"
spec = importlib.util.spec_from_file_location("audit_recorder", PATH)
cases = sys.modules["audit_recorder"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

TARGETS = cases.targets()
each_target = pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])


def test_planted_faults_can_be_planted(monkeypatch):
    """Lines that were changed since could not be replaced, and an attack under another name would not run."""
    monkeypatch.syspath_prepend(str(PATH.parent))
    planted, names = importlib.import_module("planted"), {target.name for target in TARGETS}
    names |= {question.name for question in importlib.import_module("audit_statistics").questions()}
    for name, fault in planted.FAULTS.items():
        assert fault["attack"] in names, name
        for edit in fault["edit"]:
            path = importlib.util.find_spec(f"fattail.{edit['module']}").origin
            assert Path(path).read_text(encoding="utf-8").count(edit["old"]) == 1, name


def pair(estimator, wanted):
    return next((data, neighbor) for name, data, neighbor in cases.pairs(cases.Target(estimator, "auto")) if name == wanted)


@pytest.mark.parametrize("target", [t for t in TARGETS if not t.options], ids=lambda t: t.name)
def test_a_replay_refutes_no_claim(target):
    finding = cases.audited(target, *pair(target.estimator, "huge"))
    assert finding.claim == (cases.EPSILON, cases.DELTA) and finding.ratio > 0
    assert finding.violations == ()


@pytest.mark.slow
@each_target
def test_no_replay_refutes_a_claim(target):
    for name, data, neighbor in cases.pairs(target):
        finding = cases.audited(target, data, neighbor)
        assert finding.violations == (), name
        if finding.claim:
            assert not cases.by_dp_accounting(finding.spent, cases.DELTA) > finding.claim[0] * 1.1, name


@pytest.mark.parametrize("target", cases.VARIANTS, ids=lambda t: t.name)
def test_every_variant_can_be_attacked(target):
    """A fit that is refused passes every attack."""
    finding = cases.audited(target, *next(iter(cases.pairs(target)))[1:])
    assert finding.claim is not None and finding.violations == ()


def test_few_rows_reach_the_releases_that_need_many():
    found = set()
    for name in ("DPMean", "DPLinearRegression"):
        data = cases.dataset(name, n=720)
        neighbor = cases.replaced(data, [1e308, -1e308, 0.0], -1e308)
        finding = cases.audited(cases.Target(name, "auto", {"epsilon": 200.0}), data, neighbor)
        assert finding.violations == ()
        found |= {spending.release for spending in finding.releases}
    assert found >= {"second look", "joint moments 2", "least squares gradient 2", "squares of gradients"}


def halved(method):
    """The same value with half of its sensitivity."""

    def understated(self, *arguments, **named):
        b = method(self, *arguments, **named)
        return Bounded(b._value, b.raw_sensitivity / 2, b.norm, b.fold, unit=b.unit, offset=b.offset, monotone=b.monotone)

    return understated


@pytest.mark.parametrize(
    ("table", "place", "kind", "release", "neighbor"),
    [
        ("many columns", "parts.subspace", "Gram", "moments along directions", "doubled, huge response"),
        ("many columns", "parts.subspace", "Ball", "gradient", "own, huge response"),
        ("many columns", "parts.subspace", "Clip", "mean residual", "own, huge response"),
        ("rare columns", "auto.many_columns", "Histogram", "unit of columns that do not show", "moderate"),
        ("columns in one unit", "auto.sparse", "Clip", "level of residuals", "huge"),
    ],
)
def test_a_table_of_its_own_reaches_a_release_whose_sensitivity_is_understated(table, place, kind, release, neighbor):
    """No usual table came to these releases, so the attack did not notice a fault in them."""
    target = next(t for t in cases.SHAPED if t.table == table and "relation" not in t.options)
    data, other = next((d, n) for name, d, n in cases.pairs(target) if name == neighbor)
    assert cases.audited(target, data, other).violations == ()
    module = importlib.import_module(f"fattail.algorithms.{place}")
    honest = getattr(module, kind)
    method = "counts" if kind == "Histogram" else "mean"
    with mock.patch.object(module, kind, type(kind, (honest,), {method: halved(getattr(honest, method))})):
        found = [cases.audited(target, data, other) for _ in range(5)]
    assert any(s.ratio > 1 and release in s.release for one in found for s in one.releases)


def test_a_table_with_abrupt_ends_reaches_the_parts_of_its_last_octave():
    target = next(t for t in cases.SHAPED if t.table == "capped")
    names = {s.release for _, data, other in cases.pairs(target) for s in cases.audited(target, data, other).releases}
    assert "parts of the last octave" in names


@pytest.mark.parametrize("name", ["DPMean", "DPLinearRegression", "DPSparseRegressor"])
def test_a_person_with_other_rows_refutes_no_claim(name):
    target = cases.Target(name, "auto", {"person": True})
    for _, data, neighbor in cases.pairs(target):
        finding = cases.audited(target, data, neighbor)
        assert finding.claim == (cases.EPSILON, cases.DELTA) and finding.violations == ()


def test_rows_that_count_one_by_one_are_caught():
    target = cases.Target("DPLinearRegression", "clipped", {"person": True})
    data, neighbor = next((d, n) for name, d, n in cases.pairs(target) if name == "many moderate rows")
    with mock.patch("fattail.robust.base.per_person", lambda block, V, r, center=0.0: (V, r)):
        assert cases.audited(target, data, neighbor).ratio > 1


@pytest.mark.parametrize(
    ("estimator", "first", "second"),
    [
        ("DPMean", "auto", "truncated"),
        ("DPLinearRegression", "auto", "smoothed"),
        ("DPLogisticRegression", "auto", "clipped"),
        ("DPSparseRegressor", "auto", "iht_huber"),
        ("DPGaussianMixture", "smoothed", "auto"),
        ("DPMixtureOfRegressions", "smoothed", "auto"),
        ("DPMissingCovariateRegression", "smoothed", "auto"),
    ],
)
def test_a_second_fit_keeps_nothing_of_the_first(estimator, first, second):
    data, neighbor = pair(estimator, "moderate")
    options = {"sparsity": 2} if "Sparse" in estimator else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [getattr(fattail, estimator)(epsilon=20.0, method=first, **options).fit(*d) for d in (data, neighbor)]
    ready = iter(models)
    finding = audit.record_and_replay(lambda *d: next(ready).set_params(epsilon=1.0, method=second).fit(*d), data, neighbor)
    assert finding.violations == ()


# --- bugs -----------------------------------------------------------------------------------------

N, ONE = 200, 1 << 20
OURS, THEIRS = np.zeros((N, 1)), np.zeros((N, 1))
OURS[3], THEIRS[3] = 50.0, -50.0


def total(X, clip=1.0):
    with np.errstate(invalid="ignore"):
        return np.array([np.sum(np.rint(np.clip(X, -clip, clip) * ONE).astype(np.int64))])


def bounded(X, sensitivity=2.0, **options):
    return Bounded(total(X), sensitivity * ONE, unit=1 / (ONE * N), **options)


def fitted(algorithm, model, X, budget=True):
    """Run a small algorithm as a fit of ``model``."""
    curator = Curator(1.0, 1e-5, ledger=Budget(1.0, 1e-5) if budget else None, label="small")
    model.mean_ = algorithm(curator, X, model)
    model.interval_ = np.stack([model.mean_ - 1, model.mean_ + 1])
    model.privacy_ = curator.report()
    return model


def planted(algorithm, ours=OURS, theirs=THEIRS):
    return audit.record_and_replay(lambda X: fitted(algorithm, fattail.DPMean(epsilon=1.0, delta=1e-5), X), (ours,), (theirs,))


def honest(curator, X, model):
    release = Gaussian("sum")
    curator.plan(release)
    return curator.release(release, bounded(X))


def understated_sensitivity(curator, X, model):
    release = Gaussian("sum")
    curator.plan(release)
    return curator.release(release, bounded(X, 1.0))


def scale_from_data(curator, X, model):
    release = Gaussian("sum")
    curator.plan(release)
    return curator.release(release, bounded(X, float(np.ptp(X)) + float(X.max())))


def clip_from_data(curator, X, model):
    release = Gaussian("sum")
    curator.plan(release)
    clip = min(1.0, 0.1 + abs(float(X.mean() + X.max())))
    return curator.release(release, Bounded(total(X / clip), 2 * ONE, unit=clip / (ONE * N)))


def skipped_release(curator, X, model):
    release, extra = Gaussian("sum"), Gaussian("extra")
    curator.plan(release, extra)
    if X.max() > 5:
        curator.waive(extra)
    else:
        curator.release(extra, bounded(X))
    return curator.release(release, bounded(X))


def raw_attribute(curator, X, model):
    model.scale_ = float(X.max())
    return honest(curator, X, model)


def hidden_attribute(curator, X, model):
    model._rows = X
    return honest(curator, X, model)


def telling_warning(curator, X, model):
    if X.max() > 5:
        warnings.warn("a row is far away", UserWarning, stacklevel=1)
    return honest(curator, X, model)


def telling_text(curator, X, model):
    warnings.warn(f"rows reach {X.max():.1f}", UserWarning, stacklevel=1)
    return honest(curator, X, model)


def telling_error(curator, X, model):
    value = honest(curator, X, model)
    if X.max() > 5:
        raise ArithmeticError("overflow")
    return value


def telling_cause(curator, X, model):
    try:
        int(f"{X[3, 0]:.1f}")
    except ValueError as error:
        raise ValueError("a cell is no number") from error


def telling_output(curator, X, model):
    print("rows beyond the clip:", int(np.sum(np.abs(X) > 1)), int(np.sum(X > 1)))
    return honest(curator, X, model)


def shape_from_data(curator, X, model):
    release = Laplace("counts")
    curator.plan(release)
    counts = np.unique(X[X > 0], return_counts=True)[1].astype(np.int64)
    curator.release(release, Bounded(np.append(counts, 0), 2.0, "l1"))
    return np.zeros(1)


def classes_from_data(curator, X, model):
    model.classes_ = np.unique(X)
    return honest(curator, X, model)


def overlapping_folds(curator, X, model):
    release = Gaussian("half", count=2, folds=True)
    curator.plan(release)
    with mock.patch.object(Curator, "_check_rows", lambda *_: None):
        return curator.release(release, bounded(X[:120])) + curator.release(release, bounded(X[:-80]))


def all_rows_in_parallel(curator, X, model):
    release = Gaussian("sum", count=4, folds=True)
    curator.plan(release)
    with mock.patch.object(Curator, "_check_rows", lambda *_: None):
        return sum(curator.release(release, bounded(X)) for _ in range(4))


def late_charge(curator, X, model):
    late = Curator(1.0, 1e-5)
    value = honest(late, X, model)
    honest(curator, X, model)
    return value


def noise_of_its_own(curator, X, model):
    value = honest(curator, X, model)
    return value + SecureNoise().gaussian(total(X), 1e9 * ONE) / ONE


def seed_from_data(curator, X, model):
    return honest(curator, X, model) + np.random.default_rng(int(X.max())).normal()


def reread_rows(curator, X, model):
    mean = honest(curator, X, model)
    return np.clip(mean, X.min(), X.max())


def weaker_noise(curator, X, model):
    with audit.weakened(0.5):
        return honest(curator, X, model)


BUGS = {
    understated_sensitivity: "of its charge",
    weaker_noise: "of its charge",
    scale_from_data: "sequence of steps",
    clip_from_data: "attribute mean_",
    skipped_release: "sequence of steps",
    raw_attribute: "attribute scale_",
    hidden_attribute: "attribute _rows",
    telling_warning: "warnings",
    telling_text: "warnings",
    telling_error: "error",
    telling_cause: "error",
    telling_output: "printed",
    shape_from_data: "sequence of steps",
    classes_from_data: "attribute classes_",
    overlapping_folds: "is claimed",
    all_rows_in_parallel: "is claimed",
    late_charge: "before the charge",
    noise_of_its_own: "outside of any release",
    seed_from_data: "attribute mean_",
    reread_rows: "attribute mean_",
}


def test_an_honest_algorithm_passes_and_spends_all_of_its_budget():
    finding = planted(honest)
    assert finding.violations == () and finding.ratio == pytest.approx(1) and finding.epsilon == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(("bug", "caught"), BUGS.items(), ids=[bug.__name__ for bug in BUGS])
def test_a_planted_bug_is_caught(bug, caught):
    assert any(caught in violation for violation in planted(bug).violations)


def parts_beside_the_whole(curator, X, model):
    whole = Laplace("sum", parts=2)
    curator.plan(whole)
    look = curator.split(whole, "look", 0.5)
    curator._taken.clear()
    shown = Bounded(total(X), 2 * ONE, "l1", unit=1 / (ONE * N))
    curator.release(look, shown)
    return curator.release(whole, shown)


def released_twice(curator, X, model):
    release = Gaussian("sum")
    curator.plan(release)
    curator.release(release, bounded(X))
    curator._done.clear()
    return curator.release(release, bounded(X))


@pytest.mark.parametrize("bug", [parts_beside_the_whole, released_twice])
def test_a_budget_that_is_used_twice_is_caught_by_neighbors_that_hardly_differ(bug):
    """No release moves by more than its charge, nor all together by more than the claim: the recorder passed both."""
    theirs = OURS.copy()
    theirs[3] = 0.9
    finding = planted(bug, OURS, theirs)
    assert finding.ratio < 1 and finding.epsilon < 1
    assert any("releases of epsilon 1." in v for v in finding.violations)
    assert any("times the charge" in v for v in finding.violations)


def test_a_fit_that_raises_after_the_charge_is_caught():
    def algorithm(curator, X, model):
        curator.plan(Gaussian("sum"), Gaussian("left out"))
        return curator.release(Gaussian("sum"), bounded(X))

    assert any("raises after the charge" in v and "left out" in v for v in planted(algorithm).violations)


def test_a_data_dependent_number_of_releases_is_caught():
    def algorithm(curator, X, model):
        release = Gaussian("sum", count=2)
        curator.plan(release)
        first = curator.release(release, bounded(X))
        if X.max() < 5:
            curator.release(release, bounded(X))
        else:
            curator._done[release.name] += 1  # a release that is claimed and never made
        return first

    assert "steps early" in planted(algorithm, THEIRS, OURS).diverged
    assert "sequence of steps" in str(planted(algorithm).violations)


def test_a_missing_value_that_is_not_cleaned_is_caught():
    theirs = THEIRS.copy()
    theirs[3] = np.nan
    assert planted(honest, OURS, theirs).ratio > 1e6


def test_duplicates_that_are_bounded_one_by_one_are_caught():
    def algorithm(curator, X, model):
        release = Gaussian("sum")
        curator.plan(release)
        return curator.release(release, bounded(X.data))  # entries, where cells were meant

    ours = sparse.csr_matrix(OURS)
    theirs = sparse.csr_matrix((np.full(300, 0.9), np.zeros(300, dtype=int), np.repeat([0, 300], [4, N - 3])), shape=OURS.shape)
    assert planted(algorithm, ours, theirs).ratio > 100


def test_an_attribute_of_an_earlier_fit_is_caught():
    models = [fattail.DPMean(epsilon=1.0, delta=1e-5) for _ in range(2)]
    for model, value in zip(models, (1.0, 2.0), strict=True):
        model.path_ = value  # of a fit at another epsilon
    ready = iter(models)
    finding = audit.record_and_replay(lambda X: fitted(honest, next(ready), X), (OURS,), (THEIRS,))
    assert "attribute path_" in finding.escapes


def test_a_grid_that_a_private_scale_stretches_is_caught():
    """The noise of public steps times a private scale: its last bits tell the scale."""

    def sample(mechanism, source, bounded, rho):
        if hasattr(source, "seeded"):
            z = SecureNoise().gaussian(np.zeros(bounded.size, dtype=np.int64), 2.0**40) / 2.0**40
        else:  # asked what it does with a given draw
            z = source.smooth(np.zeros(bounded.size), np.ones(bounded.size), 0.0)
        return bounded._value + 10 * bounded._smooth * np.sinh(0.4 * z) / 0.4

    target = cases.Target("DPMean", "trimmed", {"moment_bound": 200.0})
    data = pair("DPMean", "moderate")
    assert cases.audited(target, *data).coarse == ()
    with mock.patch.object(SmoothNoise, "sample", sample):
        assert cases.audited(target, *data).coarse == ("mean",)


def test_half_the_noise_of_a_method_is_caught():
    target = cases.Target("DPMean", "truncated", {"moment_bound": 1.0})
    with audit.weakened(0.5):
        finding = cases.audited(target, (1e9 * np.sign(OURS),), (-1e9 * np.sign(OURS),))
    assert finding.ratio == pytest.approx(2, rel=1e-3) and finding.epsilon > 1.5


def test_a_charge_in_advance_is_recorded_before_the_first_release():
    tape = Tape()
    observed(lambda X: fattail.DPMean(relation="add-remove", ledger=fattail.Budget(2.0, 1e-5)).fit(X), (np.ones((300, 1)),), tape)
    kinds = [step.kind for step in tape.steps]
    assert kinds.count("charge") == 1 and kinds.index("charge") < kinds.index("release")
