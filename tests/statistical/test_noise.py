"""Samplers are accepted at their scale and rejected at 0.7 and 1.3 of it."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from fattail import audit
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, TopK, selftest
from fattail.privacy.noise import SecureNoise, SeededNoise

SIZE = 16000  # rejection of a scale wrong by 30 % is then certain, not likely
SOURCES = [SecureNoise, lambda: SeededNoise(11)]


def gaussian(source, scale):
    return source.gaussian(np.zeros(SIZE, dtype=np.int64), scale * 2.0**30) / 2.0**30


def laplace(source, scale):
    return source.laplace(np.zeros(SIZE, dtype=np.int64), scale * 2.0**30) / 2.0**30


@pytest.mark.parametrize("make", SOURCES, ids=["secure", "seeded"])
@pytest.mark.parametrize(("sample", "law"), [(gaussian, stats.norm), (laplace, stats.laplace)], ids=["gaussian", "laplace"])
def test_goodness_of_fit(make, sample, law):
    draws = sample(make(), 3.0)
    assert stats.kstest(draws, law(scale=3.0).cdf).pvalue > 1e-6
    for wrong in (0.7, 1.3):
        assert stats.kstest(draws, law(scale=3.0 * wrong).cdf).pvalue < 1e-9


def top_one_counts(source, scale, monotone=False, scores=(0, 1, 2, 4), runs=8000):
    grid = 2**20
    values = np.array(scores, dtype=np.int64) * grid
    picks = [source.top_k(values, 1, scale * grid, monotone)[0] for _ in range(runs)]
    return np.bincount(picks, minlength=len(scores))


@pytest.mark.parametrize("make", SOURCES, ids=["secure", "seeded"])
def test_gumbel_selection_is_the_exponential_mechanism(make):
    counts = top_one_counts(make(), 2.0)

    def fit(scale):
        weights = np.exp(np.array([0, 1, 2, 4]) / scale)
        return stats.chisquare(counts, counts.sum() * weights / weights.sum()).pvalue

    assert fit(2.0) > 1e-6
    assert fit(2.0 * 0.7) < 1e-6 and fit(2.0 * 1.3) < 1e-6


@pytest.mark.parametrize("make", SOURCES, ids=["secure", "seeded"])
def test_one_shot_top_k_is_peeling(make):
    """Ordered pairs from three candidates against sampling without replacement."""
    source, scores, scale, grid = make(), np.array([0.0, 1.0, 1.5]), 1.0, 2**20
    picks = [tuple(source.top_k((scores * grid).astype(np.int64), 2, scale * grid, False)) for _ in range(3000)]
    w = np.exp(scores / scale)
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    expected = np.array([w[a] / w.sum() * w[b] / (w.sum() - w[a]) for a, b in pairs])
    observed = np.array([picks.count(pair) for pair in pairs])
    assert stats.chisquare(observed, observed.sum() * expected).pvalue > 1e-6


@pytest.mark.parametrize("monotone", [False, True])
def test_selection_noise_matches_the_charged_range(monotone):
    """The realized log odds under the worst shift never exceed the event's range."""
    pick = TopK("pick", k=1)
    curator = Curator(1.0, 0.0, random_state=3)
    curator.plan(pick)
    eta = curator.events[0].eta
    scale = curator.noise(pick) * (0.5 if monotone else 1.0)
    shift = 1.0 if monotone else 2.0  # one-sided against two-sided move of one candidate over another
    assert shift / scale == pytest.approx(eta, rel=1e-6)


def test_released_gaussian_has_the_reported_scale():
    total = Gaussian("total")
    curator = Curator(1.0, 1e-6, random_state=5)
    curator.plan(total)
    draws = curator.release(total, Bounded(np.zeros(SIZE), 2.0))
    assert stats.kstest(draws / curator.noise(total, 2.0), stats.norm.cdf).pvalue > 1e-6


def test_released_laplace_has_the_reported_scale():
    total = Laplace("total")
    curator = Curator(1.0, 0.0)
    curator.plan(total)
    draws = curator.release(total, Bounded(np.zeros(SIZE), 2.0, "l1"))
    assert stats.kstest(draws / curator.noise(total, 2.0), stats.laplace.cdf).pvalue > 1e-6
    assert curator.noise(total, 2.0) == pytest.approx(2.0, rel=1e-6)


def low_bits(draws, bits=6):
    """The last bits of the doubles themselves, whatever their exponents."""
    return np.asarray(draws, dtype=np.float64).view(np.uint64) & np.uint64(2**bits - 1)


def distinguishable(first, second):
    """Whether the low bits of two samples follow different laws: p-value of a chi-square test."""
    counts = np.stack([np.bincount(low_bits(draws).astype(int), minlength=64) for draws in (first, second)])
    counts = counts[:, counts.sum(axis=0) > 0]
    return stats.chi2_contingency(counts).pvalue if counts.shape[1] > 1 else 1.0


def test_low_bits_do_not_tell_neighbors_apart():
    """The sum of a value and floating-point noise is rounded to a grid that depends on the value; ours has one grid.

    With noise smaller than the value, ``0.0 + normal()`` keeps all bits of a double and
    ``1000.0 + normal()`` has zeros where the noise was cut off. Both tests see the same gap of one noise scale.
    """
    size, rng = 4000, np.random.default_rng(0)
    naive = [value + rng.normal(0.0, 1.0, size) - value for value in (0.0, 1000.0)]
    assert distinguishable(*naive) < 1e-100
    total = Gaussian("total")
    ours = []
    for value in (0.0, 1000.0):
        curator = Curator(1.0, 1e-6)
        curator.plan(total)
        unit = 1 / curator.noise(total, 1.0)  # a standard deviation of one
        ours.append(curator.release(total, Bounded(np.full(size, value), unit)) - value)
    assert distinguishable(*ours) > 1e-6
    steps = [np.unique(draws / 2.0**-29 % 1) for draws in ours]
    assert all(np.array_equal(s, [0.0]) for s in steps)  # the whole released number is a multiple of one public step


def gaussian_sum(data, seed):
    total = Gaussian("total")
    curator = Curator(1.0, 1e-5, random_state=seed)
    curator.plan(total)
    return curator.release(total, Bounded([data[0].sum()], 2.0))


def test_audit_brackets_a_correct_mean_and_catches_half_the_noise():
    ours, theirs = (np.array([1.0, 0.0, 0.0]),), (np.array([-1.0, 0.0, 0.0]),)
    honest = audit.attack(gaussian_sum, ours, theirs, runs=20000)
    assert 0.5 < honest.gaussian_epsilon < 1 and honest.epsilon < 1
    with audit.weakened(0.5):
        broken = audit.attack(gaussian_sum, ours, theirs, runs=20000)
    assert broken.gaussian_epsilon > 1


def test_a_fork_does_not_repeat_the_noise():
    """Parent and child go on from one generator state; the child must notice and seed anew."""
    code = """
import os, sys
import numpy as np
from fattail.privacy.noise import SecureNoise

def draws():
    zeros, source = np.zeros(3, dtype=np.int64), SecureNoise()
    picks = source.top_k(np.zeros(1000, dtype=np.int64), 3, 100.0, False)
    smooth = source.smooth(np.zeros(2), np.ones(2), 0.75)
    return [list(source.gaussian(zeros, 1e8)), list(source.laplace(zeros, 1e8)), list(picks), list(smooth)]

draws()  # seeded before the fork
ends = [os.pipe() for _ in range(2)]
for read, write in ends:
    if os.fork() == 0:
        os.write(write, repr(draws()).encode())
        os._exit(0)
    os.wait()
print(draws(), *(os.read(read, 10_000).decode() for read, _ in ends), sep="\\n")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    runs = [eval(line, {"np": np}) for line in out]
    assert len(runs) == 3
    for kind in zip(*runs, strict=True):  # gaussian, laplace, selection, smooth
        assert len({tuple(draw) for draw in kind}) == 3


def test_the_self_test_catches_planted_faults(monkeypatch):
    """Odd residues too rare by 4.5 %, as in a published version of the sampler, and scales too small by a quarter."""
    rng, honest = np.random.default_rng(0), selftest.discrete_gaussian

    def biased(draw, value, scale):
        draws, again = honest(draw, value, scale), honest(draw, value, scale)
        return np.where((draws % 2 == 1) & (rng.random(value.size) < 0.09), again, draws)

    monkeypatch.setattr(selftest, "discrete_gaussian", biased)
    with audit.weakened(0.75):
        assert {check.name for check in selftest.self_test() if check.ok} == {"low bits"}


def test_the_self_test_catches_draws_of_ten_bits(monkeypatch):
    def coarse(self, value, scale, width):
        return np.rint(np.random.default_rng(0).standard_normal(value.shape) * 1024) / 1024

    monkeypatch.setattr(SecureNoise, "smooth", coarse)
    p_values = dict(selftest._p_values(SecureNoise()))
    assert p_values["low bits"] < 1e-100 and p_values["discrete Gaussian"] > 1e-6
