"""Every method attacked with neighbors built against it: within its claim as shipped, caught with half the noise.

A short version of ``benchmarks/audit.py``, whose table is in ``docs/audit.md``.
"""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

import fattail
from fattail import audit

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


attacks, mechanisms = load("audit_cases"), load("audit_mechanisms")
CASES = attacks.cases()
EPSILON = 4.0
# Of the budget that neighbors use: below, a few hundred runs do not show half of the noise.
ENOUGH = 0.85


def attack(case, pair, runs, confidence, epsilon=EPSILON):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        return audit.transcript_attack(
            lambda seed: case.make(seed, epsilon), *pair, runs=runs, delta=attacks.DELTA, confidence=confidence
        )


# What adapts to the data takes longer; the benchmark attacks it at length.
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * (c.method == "auto")) for c in CASES])
def test_an_attack_stays_within_the_claim_and_catches_half_the_noise(case):
    best, used = attacks.worst_pair(case, EPSILON, seeds=1)
    pair = case.pairs[best]
    assert used <= 1
    honest = attack(case, pair, 40, 1 - 1e-4)
    assert not honest.refutes and honest.epsilon <= EPSILON
    if used < ENOUGH:
        assert case.why, "say what keeps the attack from using the whole budget"
        return
    claim = attacks.fitted(case, EPSILON, 0, *pair[0]).privacy_.events
    kinds = {type(event).__name__ for event in claim}
    # Pure noise shows best where the claim is small; mixed plans are accounted with slack and need more runs.
    if kinds == {"Gaussian"}:
        with audit.weakened(0.5):
            assert attack(case, pair, 200 if used > 0.95 else 400, 0.95).refutes
    elif kinds <= {"Pure", "BoundedRange"}:
        pair = case.pairs[attacks.worst_pair(case, 1.0, seeds=1)[0]]
        with audit.weakened(0.5):
            assert attack(case, pair, 500 if len(claim) == 1 else 1500, 0.95, 1.0).refutes


@pytest.mark.parametrize("attacked", mechanisms.mechanisms(), ids=lambda a: a.name)
def test_half_the_noise_of_any_mechanism_is_caught(attacked):
    honest = attacked.attack(attacked.runs, 1 - 1e-4)
    assert not honest.refutes and honest.epsilon <= attacked.epsilon
    with audit.weakened(0.5):
        assert attacked.attack(attacked.runs, 0.95).refutes


def test_a_mechanism_without_an_attack_is_an_error(monkeypatch):
    class Loud(mechanisms.Gaussian):
        """A mechanism of the library that nobody attacks."""

    monkeypatch.setattr(Loud, "__module__", "fattail.privacy.loud")
    with pytest.raises(LookupError, match="Loud"):
        mechanisms.mechanisms()


def test_most_methods_are_attacked_with_nearly_all_of_their_budget():
    assert sum(not c.why for c in CASES) > len(CASES) / 2


def test_a_method_without_neighbors_is_an_error(monkeypatch):
    monkeypatch.setattr(attacks, "means", lambda: iter(()))
    with pytest.raises(LookupError, match="DPMean"):
        attacks.cases()


def test_the_page_is_that_of_the_results():
    load("pictures"), load("result_files")  # which it imports
    report = load("audit")
    page = report.page(report.read(), report.read(report.MECHANISMS))
    assert report.PAGE.read_text() == page, "run benchmarks/audit.py --page"
