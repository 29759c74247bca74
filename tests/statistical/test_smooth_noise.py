"""Noise of a private scale: the proof of its constants runs, the draws are exact, and no bit tells which dataset it was."""

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fattail import Budget, DPMean, audit
from fattail.audit.replays import releases
from fattail.privacy import Curator, SmoothBounded, SmoothNoise, epsilon_of, exact
from fattail.privacy.noise import SecureNoise, SeededNoise
from fattail.privacy.smooth_gaussian import SmoothGaussian

SCRIPT = Path(__file__).parents[2] / "scripts" / "prove_smooth_noise.py"
spec = importlib.util.spec_from_file_location("prove_smooth_noise", SCRIPT)
proof = importlib.util.module_from_spec(spec)
spec.loader.exec_module(proof)

ORDERS = np.array([1.001, 1.05, 1.3, 2, 3, 5, 8, 14, 25, 60, 150, 500])


def log_cosh(x):
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2)


def log_densities(width, tau, u):
    """Densities of Z = sinh(width Y) / width and of e^tau Z + u, on a grid in Y, with its Jacobian."""
    reach = 14 + 1.3 * ORDERS.max() * abs(tau) / width
    y = np.linspace(-reach, reach, 40001)
    # arcsinh(sinh) loses nothing below 30; beyond, shift and scale act additively on the exponent.
    inner = np.clip(width * y, -30, 30)
    z = np.sinh(inner) / width
    back = np.arcsinh(width * (z - u) * np.exp(-tau)) / width
    back = np.where(np.abs(width * y) > 30, y - np.sign(y) * tau / width, back)
    normal = -0.5 * np.log(2 * np.pi)
    ours = normal - y**2 / 2 - log_cosh(width * y)
    theirs = normal - back**2 / 2 - log_cosh(width * back) - tau
    return y, ours, theirs, log_cosh(width * y)


def pairs(t, s):
    for tau in (t, t / 2, 0.0, -t / 2, -t):
        for u in (0.0, 0.5, 1.0):
            if tau or u:
                yield tau, u * s * min(1.0, np.exp(tau))


def worst_rho(width, t, s):
    worst = 0.0
    for tau, u in pairs(t, s):
        y, p, q, jacobian = log_densities(width, tau, u)
        for order in ORDERS:
            f = order * p + (1 - order) * q + jacobian
            divergence = (np.max(f) + np.log(np.trapezoid(np.exp(f - np.max(f)), y))) / (order - 1)
            worst = max(worst, divergence / order)
    return worst


@pytest.mark.parametrize("epsilon", [0.003, 0.03, 0.3, 1.0])
def test_concentrated_constants_by_quadrature(epsilon):
    mechanism = SmoothNoise("noise")
    width, t, s = mechanism.constants
    rho = epsilon**2 / 2
    assert mechanism.smoothness(rho) == pytest.approx(t * epsilon) and mechanism.smoothness(rho) < t * epsilon
    assert worst_rho(width, t * epsilon, s * epsilon) <= rho
    # The check can fail: an eighth more shift is too much.
    assert worst_rho(width, t * epsilon, 1.125 * s * epsilon) > rho


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0])
def test_one_shot_constants_by_quadrature(epsilon):
    width, t, s = SmoothNoise("noise", one_shot=True).constants

    def delta(s):
        worst = 0.0
        for tau, u in pairs(t * epsilon, s):
            y, p, q, jacobian = log_densities(width, tau, u)
            excess = np.exp(p + jacobian) * np.maximum(-np.expm1(epsilon + q - p), 0.0)
            worst = max(worst, float(np.trapezoid(excess, y)))
        return worst

    assert delta(s * epsilon) < 1e-40
    assert delta(1.3 * s * epsilon) > 1e-8


def test_the_constants_are_proved(capsys):
    assert proof.main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "proved"


def test_the_proof_refuses_constants_that_are_too_good():
    w, a, b = proof.constants(one_shot=True)
    assert proof.prove_one_shot(w, a, b * Fraction(102, 100), per_unit=128)[0] > 1
    w, a, b = proof.constants(one_shot=False)
    assert proof.prove_concentrated(w, a, b * Fraction(102, 100), per_unit=256, steps=16) < 0


def test_bounds_of_the_exponential():
    """Against exact rationals: the Taylor series and its remainder."""
    for x in (Fraction(-7, 3), Fraction(1, 10**6), Fraction(22, 7)):
        terms = [Fraction(1)]
        for k in range(1, 60):
            terms.append(terms[-1] * x / k)
        low, high = exact.exp_bounds(*x.as_integer_ratio(), 128)
        assert low <= sum(terms) * 2**128 <= high and high - low == 3


@pytest.mark.parametrize("bits", [8, 128])
def test_draws_are_normal_however_few_digits_decide(bits, monkeypatch):
    """With 8 digits at first, most decisions ask for more."""
    monkeypatch.setattr(exact, "_BITS", bits)
    width = 0.75
    rng = np.random.default_rng(3)
    noise = exact.smooth_noise(rng.bytes, np.zeros(4000), np.full(4000, 2.0), width)
    assert stats.kstest(np.arcsinh(width * noise / 2) / width, stats.norm.cdf).pvalue > 1e-6
    plain = exact.smooth_noise(rng.bytes, np.zeros(4000), np.ones(4000), 0.0)
    assert stats.kstest(plain, stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(plain, stats.norm(scale=1.3).cdf).pvalue < 1e-6


def test_the_published_double_is_the_nearest_one(monkeypatch):
    rng = np.random.default_rng(4)
    for width in (0.75, 0.0):
        for value, scale in ((0.0, 1.0), (-3.7, 1e-9), (1e15, 0.3), (1e-300, 1e-290)):
            normal = exact.Normal(rng.bytes)
            published = {}
            for bits in (8, 1024):
                monkeypatch.setattr(exact, "_BITS", bits)
                published[bits] = exact._rounded(normal, value, scale, width)
            assert published[8] == published[1024]
            ends = [Fraction(value) + Fraction(scale) * end / 2**1024 for end in normal.sinh_bounds(width, 1024)]
            ulp = Fraction(np.spacing(abs(published[8])))
            assert all(abs(end - Fraction(published[8])) <= ulp * Fraction(51, 100) for end in ends)


def one_release(X, make=lambda: DPMean(epsilon=1.0, delta=1e-6, method="trimmed", moment_bound=200.0), neighbor=None):
    found = releases(lambda X: make().fit(X), (X,), (X if neighbor is None else neighbor,))
    return next(r for r in found if isinstance(r.mechanism, SmoothNoise))


def neighbors():
    X = np.clip(np.random.default_rng(0).standard_t(2, (1000, 1)), -14, 14)
    Y = X.copy()
    Y[0] = 50.0
    return X, Y


def reached(r, bounded, bits=40):
    """Whether a release is what floats give for this value, this scale and a draw of so many bits."""
    draw, scale = audit.likelihood.normal_draws(r, bounded)
    y = (np.rint(draw * 2.0**bits) + np.arange(-3, 4)) / 2.0**bits
    noise = np.sinh(r.mechanism.width * y) / r.mechanism.width
    return bool(np.any(bounded._value + scale * noise == r.output))


def test_no_set_of_reachable_doubles_tells_which_dataset_it_was():
    X, Y = neighbors()
    for planted in (False, True):
        with audit.coarse_draws() if planted else audit.weakened(1.0):
            runs = [one_release(X, neighbor=Y) for _ in range(40)]
        ours, theirs = (sum(reached(r, bounded(r)) for r in runs) for bounded in (lambda r: r.ours, lambda r: r.theirs))
        # Every thousandth double or so is reachable by chance.
        assert (ours == 40 if planted else ours <= 3) and theirs <= 3


def test_the_audit_finds_coarse_draws():
    X, Y = neighbors()

    def make(seed):
        return DPMean(epsilon=1.0, delta=1e-6, method="trimmed", moment_bound=200.0)

    assert audit.lattice_attack(make, (X,), (Y,), runs=100).epsilon < 1
    with audit.coarse_draws():
        assert audit.lattice_attack(make, (X,), (Y,), runs=100).epsilon > 1


def test_low_bits_are_the_same_on_neighbors():
    """All bit patterns at the end of a double are equally likely, whatever the value and its scale."""
    counts = []
    for value, scale in ((0.1, 1.0), (0.1 + 1e-9, 1.0 + 1e-7)):
        noisy = SecureNoise().smooth(np.full(3000, value), np.full(3000, scale), 0.75)
        counts.append(np.bincount((noisy.view(np.uint64) & np.uint64(15)).astype(int), minlength=16))
    for observed in (*counts, sum(counts)):
        assert stats.chisquare(observed).pvalue > 1e-6
    assert stats.chi2_contingency(np.array(counts)).pvalue > 1e-6


def test_seeded_noise_takes_the_same_way():
    value, scale = np.arange(5.0), np.ones(5)
    first, second = (SeededNoise(7).smooth(value, scale, 0.375) for _ in range(2))
    assert np.array_equal(first, second) and not np.array_equal(first, SeededNoise(8).smooth(value, scale, 0.375))


def test_what_is_not_proved_is_refused_before_the_charge():
    for mechanism in (SmoothNoise("x", coordinates=10**13), SmoothGaussian("x", coordinates=3, delta=1e-30)):
        budget = Budget(epsilon=1.0, delta=1e-6)
        curator = Curator(1.0, 1e-6, ledger=budget)
        with pytest.raises(ValueError, match=r"proved from|needs a delta"):
            curator.plan(mechanism)
        assert not budget.history


def test_composed_releases_are_charged_as_gaussian_ones():
    steps = SmoothNoise("step", count=10, coordinates=4)
    curator = Curator(1.0, 1e-6)
    curator.plan(steps)
    assert epsilon_of(curator.events, 1e-6) <= 1.0
    per_value = np.sqrt(2 * curator.rho(steps) / 4)
    assert curator.smoothness(steps) == pytest.approx(0.1 * per_value)
    for _ in range(10):
        curator.release(steps, SmoothBounded(np.zeros(4), np.ones(4), curator.smoothness(steps)))
    assert curator.report().numerics == "exact"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_half_line_needs_what_the_closed_form_says(sign):
    """E[X; Y > y] is density times (b sech(wy) + (a / w) tanh(wy)), so mu is at least sqrt(b^2 + (a / w)^2)."""
    w, a, b = SmoothNoise("noise").constants
    y = np.linspace(-12, 12, 200001)
    t, c = np.tanh(w * y), np.cosh(w * y)
    score = b * (y + w * t) / c + sign * a * (y * t / w + t**2 - 1)
    density = stats.norm.pdf(y)
    above = np.cumsum((score * density)[::-1])[::-1] * (y[1] - y[0])
    np.testing.assert_allclose(above, density * (b / c + sign * a / w * t), atol=1e-4)
    assert b**2 + (a / w) ** 2 < 1


def test_the_audit_finds_coarse_draws_in_a_vector():
    """The same for Gaussian noise in proportion to a smooth sensitivity in l2."""

    class Vector:
        def fit(self, X):
            release = SmoothGaussian("vector", coordinates=2, delta=1e-6)
            curator = Curator(1.0, 1e-5)
            curator.plan(release)
            curator.release(release, SmoothBounded(X[0, :2], X[0, 2:], curator.smoothness(release)))

    data, neighbor = np.array([[0.1, 0.2, 1.0, 1.0]]), np.array([[0.3, 0.1, 1.001, 1.001]])
    assert audit.lattice_attack(lambda seed: Vector(), (data,), (neighbor,), runs=100).epsilon < 1
    with audit.coarse_draws():
        assert audit.lattice_attack(lambda seed: Vector(), (data,), (neighbor,), runs=100).epsilon > 1
