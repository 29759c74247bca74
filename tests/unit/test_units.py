"""Private centers and scales of many columns at once."""

import numpy as np
import pytest

from fattail import audit
from fattail.columns.units import DEFAULTS, find_units, visible, widen
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData

N = 20_000
COLUMNS = {
    "normal": lambda rng: rng.normal(size=N),
    "latitude": lambda rng: 47.5 + 0.13 * rng.normal(size=N),
    "year": lambda rng: rng.integers(1950, 2020, N).astype(float),
    "tiny": lambda rng: 1e-9 * rng.normal(size=N),
    "log-normal": lambda rng: rng.lognormal(10, 1, N),
    "negative": lambda rng: -3e6 + 1e6 * rng.normal(size=N),
    "dummy": lambda rng: (rng.random(N) < 0.3).astype(float),
    "mostly one": lambda rng: (rng.random(N) < 0.93).astype(float),
    "zero-inflated": lambda rng: np.where(rng.random(N) < 0.1, rng.gamma(3.0, 1000.0, N), 0.0),
}


def units(X, seed, share=0.05, widened=False):
    releases = [Gaussian(f"counts {t}", share * part) for t, part in enumerate(DEFAULTS.shares)]
    squares = Gaussian("squares", 0.05)
    curator = Curator(1.0, 1e-6, random_state=seed)
    curator.plan(*releases, squares, Gaussian("rest", 0.95 - share))
    found = find_units(curator, tuple(releases), PrivateData(X), False)
    return widen(curator, squares, PrivateData(X), found) if widened else found


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_every_kind_get_their_center_and_scale(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([draw(rng) for draw in COLUMNS.values()])
    found = units(X, seed)
    ratio, off = found.scale / X.std(axis=0), np.abs(found.center - X.mean(axis=0)) / X.std(axis=0)
    assert np.all((ratio > 0.5) & (ratio < 2.5)), dict(zip(COLUMNS, ratio.round(2), strict=True))
    assert np.all(off < 1.0), dict(zip(COLUMNS, off.round(2), strict=True))


@pytest.mark.parametrize("value", [0.0, 1.0, -47.5, 0.1 + 1e-13, 1e9])
def test_a_constant_has_no_scale(value):
    X = np.column_stack([np.full(N, value), np.random.default_rng(0).normal(size=N)])
    for seed in range(5):
        found = units(X, seed)
        assert np.isinf(found.scale[0]) and np.isfinite(found.scale[1])


def test_rows_that_show_in_no_octave_widen_a_scale():
    """One row in eighty is far away: no count shows it, the mean square does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N) + 30 * rng.choice([-1, 1], N) * (rng.random(N) < 0.0125)
    before = [units(x[:, None], seed, 0.01).scale[0] / x.std() for seed in range(5)]
    after = [units(x[:, None], seed, 0.01, True).scale[0] / x.std() for seed in range(5)]
    assert max(before) < 0.5 < min(after) < max(after) < 2.0


def test_the_response_is_widened_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 9))
    y = rng.normal(size=N) + 30 * rng.choice([-1, 1], N) * (rng.random(N) < 0.0125)
    releases = [Gaussian(f"counts {t}", 0.01 * part) for t, part in enumerate(DEFAULTS.shares)]
    for seed in range(5):
        curator = Curator(1.0, 1e-6, random_state=seed)
        curator.plan(*releases, squares := Gaussian("squares", 0.05), Gaussian("rest", 0.94))
        found = find_units(curator, tuple(releases), data := PrivateData(x, y), True)
        assert found.scale[-1] < 0.5 * y.std() < widen(curator, squares, data, found).scale[-1] < 2 * y.std()


def test_noise_seldom_gives_the_response_a_unit():
    """A false octave of the response is the unit of all predictions: one of 20,000 fits to odd tables was wild for it."""
    data, far = PrivateData(np.zeros((1500, 2)), 0.2 * np.random.default_rng(0).standard_t(3, 1500)), 0
    for seed in range(2000):
        curator = Curator(0.2, 1e-5, random_state=seed)
        releases = [Gaussian(f"counts {t}", 0.07 * part) for t, part in enumerate(DEFAULTS.shares)]
        curator.plan(*releases, Gaussian("rest", 0.93))
        far += bool(3 < find_units(curator, tuple(releases), data, True).scale[-1] < np.inf)
    assert far <= 3  # 8 without its margin


def test_noise_alone_is_seldom_visible():
    rng = np.random.default_rng(0)
    shown = [visible(rng.normal(size=100), 1.0, 20 * 100).any() for _ in range(2000)]
    assert np.mean(shown) < 0.02


def test_hostile_rows_never_exceed_a_declared_sensitivity():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), np.zeros(300), rng.lognormal(8, 2, 300)])
    assert audit.fuzz(lambda data: units(data, 1, 0.4, True), (X,), trials=10, seed=2) <= 1
