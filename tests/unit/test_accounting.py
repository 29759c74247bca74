"""The accountant against closed forms, quadrature and dp-accounting."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats

from fattail.privacy import Budget, check_budget, delta_of, epsilon_of, gaussian_multiplier, largest_rho, satisfies
from fattail.privacy import events as ev

BUDGETS = [(0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-8)]


def hockey_stick(p, q, epsilon, points=None):
    value, _ = integrate.quad(lambda x: max(p(x) - math.exp(epsilon) * q(x), 0.0), -60, 60, points=points, limit=2000)
    return value


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        # Independent 50-digit roots of the Balle-Wang equation.
        (0.1, 1e-5, 30.749566131977662),
        (1, 1e-6, 4.224678889326847),
        (4, 1e-8, 1.3955826839113037),
        (8, 1e-5, 0.6002290721989528),
    ],
)
def test_one_gaussian_release_is_calibrated_exactly(epsilon, delta, sigma):
    ours = gaussian_multiplier(epsilon, delta)
    assert sigma <= ours <= sigma * 1.00001


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("count", [1, 50, 1000])
def test_gaussian_releases_compose_to_one_gaussian(epsilon, delta, count):
    many = gaussian_multiplier(epsilon, delta, count)
    assert many == pytest.approx(math.sqrt(count) * gaussian_multiplier(epsilon, delta), rel=1e-4)
    assert satisfies([ev.GaussianEvent(many, count)], epsilon, delta)
    assert not satisfies([ev.GaussianEvent(many * 0.999, count)], epsilon, delta)


def test_gaussian_delta_is_the_hockey_stick_divergence():
    mu = 0.7
    exact = hockey_stick(stats.norm(mu, 1).pdf, stats.norm(0, 1).pdf, 0.5)
    assert delta_of([ev.GaussianEvent(1 / mu)], 0.5) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"), [(0.1, 1e-5, 4.3299372940e-4), (1, 1e-5, 3.0556595198e-2), (2, 1e-8, 6.3940445673e-2)]
)
def test_concentrated_conversion(epsilon, delta, rho):
    assert largest_rho(lambda r: [ev.ZeroConcentrated(r)], epsilon, delta) == pytest.approx(rho, rel=1e-5)


@pytest.mark.parametrize("eta", [0.01, 0.3, 1.0, 5.0])
def test_dominating_gaussian_of_a_bounded_range_release(eta):
    """No two-point pair of that range beats the Gaussian, and one pair touches it."""
    mu = ev.mu_of_bounded_range(eta)
    slack = []
    for t in np.linspace(0, eta, 401)[1:-1]:
        p = math.expm1(t - eta) / math.expm1(-eta)
        q = p * math.exp(-t)
        slack.append(mu - (stats.norm.ppf(p) - stats.norm.ppf(q)))
    assert min(slack) >= 0
    assert min(slack) < 1e-4 * mu


def test_dominating_gaussian_of_a_pure_release():
    epsilon = 0.8
    mu = ev.mu_of_pure(epsilon)
    for e in np.linspace(-2, 2, 81):
        randomized_response = sum(
            max(p - math.exp(e) * q, 0)
            for p, q in [
                (math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))),
                (1 / (1 + math.exp(epsilon)), math.exp(epsilon) / (1 + math.exp(epsilon))),
            ]
        )
        gaussian = stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)
        assert randomized_response <= gaussian + 1e-12


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-16, 1e-9, 0.3, 1.0, 1.01, 5.0, 30.0])
def test_small_releases_cost_what_they_cost(epsilon):
    """Never less than the exact value, and never more than a hair above."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(400):
        exact = 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(mp.mpf(epsilon) / 2)) if epsilon < 1 else None
    ours = ev.mu_of_pure(epsilon)
    if exact is None:
        exact = -2 * stats.norm.ppf(1 / (1 + math.exp(epsilon))) * (1 - 1e-13)
    assert exact <= ours <= exact * (1 + 2e-12)
    assert ev.mu_of_bounded_range(epsilon) >= ev.mu_of_pure(epsilon / 2)


def test_very_many_very_small_releases_add_up():
    cost = ev.Pure(1e-17, 10**18).cost()
    assert cost.pure_epsilon == pytest.approx(10.0) and cost.pure_mu2 > 1e-16
    assert not satisfies(cost, 1.0, 0.0)
    many = ev.Cost(pure_epsilon=1.0)
    for _ in range(3):
        many = many + ev.Pure(1e-17).cost()
    assert many.pure_epsilon > 1.0  # sums are rounded up


@pytest.mark.parametrize(("sigma", "rate"), [(1000.0, 1e-9), (1e6, 1e-12), (1.0, 1e-300), (0.3, 0.5)])
def test_no_cancellation_in_subsampled_releases(sigma, rate):
    mp = pytest.importorskip("mpmath")

    def add_remove(a):
        q, s = mp.mpf(rate), 2 * mp.mpf(sigma)
        terms = (mp.binomial(a, k) * (1 - q) ** (a - k) * q**k * mp.exp(mp.mpf(k * (k - 1)) / (2 * s * s)) for k in range(a + 1))
        return mp.log(sum(terms)) / (a - 1)

    ours = ev.SubsampledGaussianEvent(sigma, rate).cost().renyi
    with mp.workdps(800):
        for a, r in zip((2, 3, 4), ours, strict=False):
            exact = mp.mpf(a - 0.5) / (a - 1) * add_remove(2 * a) + add_remove(2 * a - 1)
            assert exact <= r and (r <= exact * (1 + 1e-8) or r < 1e-300)


def test_large_ranges_are_counted_without_a_warning():
    for eta in (29.0, 31.0, 100.0, 1e4):
        assert ev.mu_of_bounded_range(eta) >= ev.mu_of_pure(eta / 2)


def test_approximate_releases_compose_as_pure_ones_that_may_fail():
    many = [ev.Approximate(0.01, 1e-10, 1000)]
    assert epsilon_of(many, 1e-6) < 3
    assert delta_of(many, 10.0) == pytest.approx(1e-7)


def test_pure_releases_need_no_delta():
    assert epsilon_of([ev.Pure(0.25, 4)], 0.0) == pytest.approx(1.0)
    assert epsilon_of([ev.GaussianEvent(1.0)], 0.0) == math.inf


def test_many_pure_releases_use_advanced_composition():
    assert epsilon_of([ev.Pure(0.01, 1000)], 1e-6) < 3


def test_disjoint_folds_cost_the_dearest_of_them():
    parallel = ev.Parallel(((ev.GaussianEvent(2.0),), (ev.GaussianEvent(1.0), ev.Pure(0.1)), (ev.Pure(0.2),)))
    assert parallel.cost().mu2 == 1.0
    assert parallel.cost().pure_epsilon == 0.2


def test_subsampling_amplifies_and_full_rate_does_not_undercut_the_exact_gaussian():
    full = epsilon_of([ev.SubsampledGaussianEvent(4.0, 1.0)], 1e-5)
    assert full >= epsilon_of([ev.GaussianEvent(4.0)], 1e-5)
    assert epsilon_of([ev.SubsampledGaussianEvent(1.0, 0.01, 100)], 1e-5) < 0.2 * epsilon_of([ev.GaussianEvent(1.0, 100)], 1e-5)


def test_subsampled_release_is_dominated_in_the_symmetric_worst_case():
    """Replacing +1 by -1 in a sampled sum: exact hockey stick against the bound."""
    sigma, rate = 1.0, 0.2  # noise multiplier relative to the replacement's move of 2

    def mixture(sign):
        return lambda x: (1 - rate) * stats.norm.pdf(x, 0, 2 * sigma) + rate * stats.norm.pdf(x, sign, 2 * sigma)

    for epsilon in (0.1, 0.3, 0.6):
        exact = hockey_stick(mixture(1), mixture(-1), epsilon)
        assert exact <= delta_of([ev.SubsampledGaussianEvent(sigma, rate)], epsilon)


def test_events_survive_storage():
    stored = (
        ev.GaussianEvent(1.5, 3),
        ev.BoundedRange(0.2, 10),
        ev.Pure(0.1),
        ev.ZeroConcentrated(0.01),
        ev.Approximate(0.1, 1e-9),
        ev.SubsampledGaussianEvent(1.0, 0.1, 5),
        ev.Parallel(((ev.GaussianEvent(2.0),), (ev.Pure(0.1),))),
    )
    assert tuple(ev.Event.from_dict(e.to_dict()) for e in stored) == stored


@pytest.mark.parametrize(
    "make",
    [
        lambda: ev.GaussianEvent(0.0),
        lambda: ev.GaussianEvent(math.nan),
        lambda: ev.Pure(-1.0),
        lambda: ev.BoundedRange(math.inf),
        lambda: ev.SubsampledGaussianEvent(1.0, 0.0),
        lambda: ev.Approximate(1.0, 1.0),
        lambda: ev.Event.from_dict({"kind": "no"}),
        lambda: ev.GaussianEvent(5.0, count=-1),
        lambda: ev.GaussianEvent(5.0, count=0),
        lambda: ev.Pure(0.1, count=1.5),
        lambda: ev.Pure(1e-17, count=1e18),
        lambda: ev.BoundedRange(0.1, count=True),
        lambda: ev.ZeroConcentrated(0.1, count=2**63),
        lambda: ev.Approximate(0.1, 1e-9, count=math.nan),
        lambda: ev.SubsampledGaussianEvent(1.0, 0.1, count="3"),
        lambda: ev.Parallel(((ev.GaussianEvent(2.0, count=1), {"kind": "pure", "epsilon": 0.1, "count": -5}),)),
    ],
)
def test_meaningless_events_are_refused(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, 1e-5),
        (-1, 1e-5),
        (math.nan, 1e-5),
        (math.inf, 1e-5),
        (1, -0.1),
        (1, 1.0),
        (1, math.nan),
        ("1", 1e-5),
        (True, 1e-5),
        (None, 1e-5),
    ],
)
def test_meaningless_budgets_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        gaussian_multiplier.__wrapped__(epsilon, delta)


def test_calibration_that_cannot_succeed_says_so():
    with pytest.raises(ValueError, match="delta > 0"):
        largest_rho(lambda r: [ev.GaussianEvent(1 / math.sqrt(2 * r))], 1.0, 0.0)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_against_dp_accounting(epsilon, delta):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    sigma = gaussian_multiplier(epsilon, delta)
    theirs = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4).get_epsilon_for_delta(delta)
    assert theirs <= epsilon * 1.001
    looser = pld.from_gaussian_mechanism(sigma / 1.005, value_discretization_interval=1e-4, pessimistic_estimate=False)
    assert looser.get_epsilon_for_delta(delta) > epsilon


@pytest.mark.parametrize(
    "event",
    [
        ev.SubsampledGaussianEvent(1000.0, 1e-9),
        ev.SubsampledGaussianEvent(1e200, 0.5),
        ev.SubsampledGaussianEvent(1e160, 5e-324, count=2**62),
        ev.SubsampledGaussianEvent(1e-200, 0.5),
        ev.GaussianEvent(1e308),
        ev.GaussianEvent(5e-324),
        ev.Pure(1e-300, count=2**63 - 1),
        ev.BoundedRange(1e-300),
        ev.Pure(1e308),
        ev.ZeroConcentrated(1e308, count=2**63 - 1),
    ],
    ids=str,
)
def test_no_release_however_extreme_is_free_or_without_a_cost(event):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cost = event.cost()
    numbers = [x for f in dataclasses.fields(cost) for x in np.ravel(getattr(cost, f.name))]
    assert not np.isnan(numbers).any() and min(numbers) >= 0
    kinds = {"pure": ("pure_mu2", "pure_rho", "pure_epsilon"), "bounded_range": ("pure_mu2", "pure_rho", "pure_epsilon")}
    kinds |= {"gaussian": ("mu2",), "zcdp": ("rho",), "subsampled_gaussian": ("renyi",)}
    assert all(np.min(getattr(cost, name)) > 0 for name in kinds[event.kind])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ev.GaussianEvent(x),
        lambda x: ev.Pure(x),
        lambda x: ev.ZeroConcentrated(x),
        lambda x: ev.BoundedRange(x),
        lambda x: ev.Approximate(x, 1e-9),
        lambda x: ev.Approximate(0.1, x),
        lambda x: ev.SubsampledGaussianEvent(1.0, x),
        lambda x: check_budget(x, 0.0),
        lambda x: check_budget(1.0, x),
    ],
)
def test_what_is_no_number_is_a_value_error(make):
    for value in (math.nan, math.inf, -1.0, 10**400, True, "1", None, 1j, np.array([0.1, 0.2]), [0.1]):
        with pytest.raises(ValueError, match="must"):
            make(value)


@pytest.mark.parametrize("number", [np.float32(0.25), np.float16(0.25), np.int64(1), 1])
def test_numbers_of_numpy_go_into_a_file(number):
    with Budget(2.0, 1e-6) as budget:
        budget.charge([ev.Pure(number), ev.Parallel(((ev.GaussianEvent(number * 80),),))])
    assert budget.history[0].events[0].epsilon == float(number)


def test_the_smallest_budget_can_be_spent():
    budget = Budget(5e-324)
    budget.charge([ev.Pure(5e-324)])
    assert budget.spent == 5e-324 and budget.remaining == 0.0
