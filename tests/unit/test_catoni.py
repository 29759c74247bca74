"""The smoothed map: accurate, odd, monotone, and within its supremum for every float."""

import numpy as np
import pytest

from fattail.robust import catoni

BETAS = [0.1, 0.7, 1.0, 2.0, 4.6, 10.0, 20.0, 100.0]

# (beta, a, g): quadrature of the defining expectation with 50 digits.
VECTORS = [
    (1.0, 0.1, 0.0993333333333333388),
    (1.0, 1.0, 0.564087272574383827),
    (1.0, 4.0, 0.637993091515728283),
    (1.0, 1000.0, 0.643645734527049825),
    (1.0, 1e12, 0.643645825779911539),
    (2.0, 0.001, 0.000999999583333333354),
    (2.0, 0.5, 0.448001474229467271),
    (2.0, 1.0, 0.660415698927297446),
    (2.0, 4.0, 0.784809479972121974),
]

HOSTILE = np.array([0.0, 5e-324, 1e-320, 1e-300, 1e-8, 0.3, 1.0, 3.0, 1e4, 3e5, 1e6, 1e8, 1e100, 1e103, 1e308, np.inf, np.nan])


def random_floats(count, seed):
    """Floats of uniformly random bits: every exponent, infinities and NaNs of all kinds."""
    bits = np.random.default_rng(seed).integers(-(2**63), 2**63, count, dtype=np.int64)
    return bits.view(np.float64)


@pytest.mark.parametrize(("beta", "a", "value"), VECTORS)
def test_known_values(beta, a, value):
    assert float(catoni.reference(a, beta)) == pytest.approx(value, rel=0, abs=1e-14)
    assert float(catoni.smooth(a, beta)) == pytest.approx(value, rel=0, abs=1e-12)


def test_supremum():
    assert catoni.sup(2.0) == pytest.approx(0.7945059269413656, abs=1e-15)
    assert catoni.sup(1.0) == pytest.approx(0.6436458257799117, abs=1e-15)


@pytest.mark.parametrize("beta", BETAS)
def test_fast_map_is_accurate_everywhere(beta):
    t = catoni.smooth_map(beta)
    cores = np.array([t.core / t.kappa, catoni.smooth_map(beta, 9e-13).core / t.kappa])
    edges = np.array([*cores, *(1e3 * cores), np.sqrt(beta) / 4.0])
    a = np.concatenate(
        [np.geomspace(1e-6, 1e9, 40_001), np.linspace(0.0, 4.0, 40_001), edges, edges * (1 + 1e-12), np.nextafter(edges, 9e9)]
    )
    exact = catoni.reference(a, beta)
    assert np.abs(catoni.smooth(a, beta) - exact).max() < 1e-12
    # The kernels' table: a quarter of half the step to which they round.
    assert np.abs(catoni.scaled(a * t.kappa, t) / 2.0**30 * t.sup - exact).max() < 2.0**-33


@pytest.mark.parametrize("beta", BETAS)
def test_reference_is_the_expectation(beta):
    """Compare with a Gauss-Legendre average of phi over the normal law, cut at phi's kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for a in (0.05, 0.4, 1.0, 1.3, 3.9, 60.0):
        cuts = np.clip([-9.0, -np.sqrt(2) / a, 0.0, np.sqrt(2) / a, 9.0], 1 - 9 / np.sqrt(beta), 1 + 9 / np.sqrt(beta))
        total = 0.0
        for low, high in zip(np.r_[1 - 9 / np.sqrt(beta), cuts], np.r_[cuts, 1 + 9 / np.sqrt(beta)], strict=True):
            w = (low + high) / 2 + (high - low) / 2 * nodes
            x = np.clip(a * w, -np.sqrt(2), np.sqrt(2))
            density = np.sqrt(beta / (2 * np.pi)) * np.exp(-beta * (w - 1) ** 2 / 2)
            total += (high - low) / 2 * (weights @ ((x - x**3 / 6) * density))
        assert float(catoni.reference(a, beta)) == pytest.approx(total, rel=0, abs=2e-14)


@pytest.mark.parametrize("beta", BETAS)
def test_bounded_and_odd_for_all_floats(beta):
    a = np.concatenate([HOSTILE, random_floats(200_000, seed=7)])
    up, down = catoni.smooth(a, beta), catoni.smooth(-a, beta)
    assert np.all(np.abs(up) <= catoni.sup(beta))
    assert np.array_equal(up, -down)
    assert np.all(up[np.isnan(a)] == 0.0)


@pytest.mark.parametrize("beta", BETAS)
def test_bounded_even_if_the_table_is_wrong(beta):
    """Privacy rests on the clamp alone: it must hold for coefficients gone astray."""
    t = catoni.smooth_map(beta)
    for astray in (t._replace(tail=t.tail * 1e250, slope=1e300), t._replace(tail=t.tail * np.nan, slope=np.nan)):
        assert np.all(np.abs(catoni.scaled(random_floats(10_000, seed=8), astray)) <= 2.0**30)


@pytest.mark.parametrize("beta", BETAS)
def test_increasing_up_to_its_error(beta):
    a = np.sort(np.concatenate([np.geomspace(1e-6, 1e8, 50_001), np.linspace(0.0, 4.0, 50_001)]))
    assert np.diff(catoni.smooth(a, beta)).min() > -1e-12
    assert np.diff(catoni.reference(a, beta)).min() > -1e-14


@pytest.mark.parametrize("beta", [0.0, 0.09, 101.0, np.inf, np.nan, -1.0])
def test_refuses_other_beta(beta):
    with pytest.raises(ValueError, match="beta"):
        catoni.smooth(1.0, beta)
