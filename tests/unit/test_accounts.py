"""Accounts against an analyst who chooses every question after seeing the answers."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from fattail.privacy import Curator, Gaussian, Laplace, SmoothNoise, SubsampledGaussian, TopK, gaussian_multiplier, satisfies
from fattail.privacy import events as ev
from fattail.privacy.accountant import gaussian_delta
from fattail.privacy.accounts import KINDS, Balance, account_name, check_kind, concentrated_limit, gaussian_limit
from fattail.privacy.smooth_gaussian import SmoothGaussian

# --- A numerical adversary: dynamic programming over choices and privacy loss. ---

STEP, LOWEST = 0.01, -800
LOSSES = np.arange(LOWEST, 1001) * STEP


def moves(losses, weights):
    """Changes of the loss on the grid, split so that both laws stay probabilities: never too harmless."""
    below = np.floor(losses / STEP + 1e-9).astype(int)
    upper = -np.expm1(below * STEP - losses) / -math.expm1(-STEP)
    table = np.zeros(below.max() - below.min() + 2)
    np.add.at(table, below - below.min(), weights * (1 - upper))
    np.add.at(table, below - below.min() + 1, weights * upper)
    return below.min(), table


def gaussian(mu):
    edges = np.linspace(-9, 9, 20001)
    return (
        ev.GaussianEvent(1 / mu),
        None,
        0.0,
        moves(mu * mu / 2 + mu * (edges[1:] + edges[:-1]) / 2, np.diff(stats.norm.cdf(edges))),
    )


def pure(epsilon, failure=0.0):
    p = 1 / (1 + math.exp(-epsilon))
    event = ev.Approximate(epsilon, failure) if failure else ev.Pure(epsilon)
    return (event, None, failure, moves(np.array([epsilon, -epsilon]), np.array([p, 1 - p])))


def selection(eta, t):
    p = math.expm1(t - eta) / math.expm1(-eta)
    return (ev.BoundedRange(eta), None, 0.0, moves(np.array([t, t - eta]), np.array([p, 1 - p])))


def expected(value, change):
    first, table = change
    last = first + len(table) - 1
    padded = np.concatenate([np.full(max(0, -first), value[0]), value, np.ones(max(0, last))])
    return np.correlate(padded, table, "valid")[max(0, first) :][: len(value)]


def adversary(menu, account):
    """Largest delta that an analyst reaches at the account's epsilon, by the best choice after every answer."""
    stop = np.maximum(-np.expm1(account.epsilon - LOSSES), 0.0)
    known = {}

    def value(state):
        if state not in known:
            best = stop
            for event, claim, failure, change in menu:
                after = state.plus(event.cost(), claim)
                if after.admitted:
                    best = np.maximum(best, failure + (1 - failure) * expected(value(after), change))
            known[state] = best
        return known[state]

    return float(value(account)[-LOWEST])


def by_any_route(balance):
    """The rule that accounts once had: admit what any bound allows."""
    return satisfies(balance.cost, balance.epsilon, balance.delta)


def left_for_pure(share, epsilon, delta):
    """Pure epsilon that this rule still admits after a Gaussian with this share of the squared mu."""
    mu = math.sqrt(share) / gaussian_multiplier(epsilon, delta)
    return optimize.brentq(lambda e: gaussian_delta(epsilon - e, mu) / delta - (1 - 2e-6), 0, epsilon - 1e-9) - 1e-7


def test_the_adversary_knows_what_one_release_is_worth():
    for mu in (0.1, 0.25):
        menu = [gaussian(mu)]
        account = Balance(1.0, 1.0 - 1e-9, "gaussian")
        once = max(expected(np.maximum(-np.expm1(1.0 - LOSSES), 0.0), menu[0][3])[-LOWEST], 0)
        assert once == pytest.approx(gaussian_delta(1.0, mu), rel=1e-3)
        assert account.plus(menu[0][0].cost()).admitted
    p = expected(np.maximum(-np.expm1(0.5 - LOSSES), 0.0), pure(1.0)[3])[-LOWEST]
    assert p == pytest.approx((math.e - math.exp(0.5)) / (1 + math.e), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "shares", "worse"), [(3.0, 1e-6, (0.05,), 1.8), (1.0, 1e-5, (0.1, 0.2), 2.0)])
def test_a_choice_of_bound_after_an_answer_breaks_the_claim(monkeypatch, epsilon, delta, shares, worse):
    """The planted fault: what the adversary makes of the old rule, so that its silence below means something."""
    mu = 1 / gaussian_multiplier(epsilon, delta)
    spent = np.cumsum(shares)
    rest = [s for done in (0, *spent) for s in (*shares, 1 - done - 1e-4) if s < 1 - 1e-3]
    menu = [gaussian(mu * math.sqrt(s)) for s in rest] + [pure(left_for_pure(s, epsilon, delta)) for s in spent]
    mutant = adversary_with(monkeypatch, by_any_route, menu, Balance(epsilon, delta, "mixed"))
    assert mutant > worse * delta
    assert adversary(menu, Balance(epsilon, delta, "mixed")) <= delta


def adversary_with(monkeypatch, rule, menu, account):
    with monkeypatch.context() as patch:
        patch.setattr(Balance, "admitted", property(rule))
        return adversary(menu, account)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (3.0, 1e-6)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_strategy_exceeds_the_claim(kind, epsilon, delta):
    """Pieces cut to use up each route exactly, alone and after pieces of another."""
    shares = KINDS[kind]
    mu = math.sqrt(gaussian_limit(epsilon, (shares.gaussian or 0.5) * delta))
    order, limit = concentrated_limit(epsilon, (shares.concentrated or 0.5) * delta)
    small = STEP * math.floor(math.sqrt(2 * limit / order / 12) / STEP)  # on the grid, or splitting would add to it
    menus = [
        [gaussian(mu * math.sqrt(s)) for s in (0.1, 0.2, 0.7)] + [pure(epsilon), pure(epsilon / 2), pure(small)],
        [gaussian(mu * 0.5), pure(small), *(selection(2 * small, t * small) for t in (0.5, 1.0, 1.5))],
        [
            gaussian(mu * 0.99),
            pure(epsilon / 4),
            pure(small, shares.failure * delta / 2),
            pure(epsilon / 4, shares.addition * delta / 2),
        ],
        # A fit that claims more than its noise: the claim is what addition counts.
        [(*gaussian(mu * 0.5)[:1], (epsilon / 2, delta / 10), *gaussian(mu * 0.5)[2:]), pure(epsilon / 2), pure(epsilon / 4)],
    ]
    reached = [adversary(menu, Balance(epsilon, delta, kind)) / delta for menu in menus]
    assert max(reached) <= 1.0
    assert max(reached) > 0.3  # the claim is not wasted either


# --- What is admitted. ---


def admitted(event, account, most=100_000):
    """How many charges of this kind an account takes, by bisection over repetitions after a first one."""
    low, high = 0, most
    while high - low > 1:
        mid = (low + high) // 2
        first = account.plus(event.cost())
        low, high = (mid, high) if first.plus(event.cost().scaled(mid)).admitted else (low, mid)
    return low + 1


def admitted_before(event, epsilon, delta, most=100_000):
    low, high = 0, most
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (mid, high) if satisfies(event.cost().scaled(mid), epsilon, delta) else (low, mid)
    return low


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (1.0, 1e-8), (3.0, 1e-6), (3.0, 1e-5), (8.0, 1e-5)]
)
def test_at_most_a_tenth_is_lost_to_adaptivity(epsilon, delta):
    gauss = ev.GaussianEvent(gaussian_multiplier(epsilon, delta, 2000))
    small = ev.Pure(epsilon / 300)
    for event, sharp in ((gauss, "gaussian"), (small, "concentrated")):
        before = admitted_before(event, epsilon, delta)
        assert 300 < before < 50_000  # many, and the search did not end at its limit
        assert admitted(event, Balance(epsilon, delta, "mixed")) >= 0.9 * before
        assert admitted(event, Balance(epsilon, delta, sharp)) >= 0.975 * before
    for count in (1, 2, 3, 7):  # few pure releases add up, as ever
        assert admitted(ev.Pure(epsilon / count), Balance(epsilon, delta, "mixed"), 20) >= count


def test_ten_tenths_are_one():
    account = Balance(1.0, 0.0, "sum")
    for _ in range(10):
        account = account.plus(ev.Pure(0.1).cost())
        assert account.admitted
    assert account.spent == pytest.approx(1.0)
    assert not account.plus(ev.Pure(1e-9).cost()).admitted


PLANS = {
    "gaussian": (Gaussian("a", count=7),),
    "selection": (TopK("a", k=5, count=3), Gaussian("b", 0.5)),
    "many selections": (TopK("a", k=50, count=20),),
    "pure": (Laplace("a", count=2),),
    "pure and gaussian": (Laplace("a", 0.3), Gaussian("b", 0.7, count=100)),
    "folds": (Gaussian("a", count=4, folds=True), Laplace("b")),
    "smooth": (SmoothNoise("a", coordinates=3),),
    "smooth, one shot": (SmoothNoise("a", one_shot=True),),
    "smooth gaussian": (SmoothGaussian("a", delta=5e-7, coordinates=3),),
    "subsampled": (SubsampledGaussian("a", count=20, rate=0.01), Gaussian("b", 0.1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_a_fresh_account_takes_any_fit_with_its_limits(plan, kind, epsilon):
    curator = Curator(epsilon, 1e-6, random_state=0)
    curator.plan(*plan)
    cost = ev.total_cost(curator.events)
    for claim in ((epsilon, 1e-6), None):
        account = Balance(epsilon, 1e-6, kind).plus(cost, claim)
        assert account.admitted
        assert account.spent <= epsilon * (1 + 1e-9)
        assert not account.plus(cost, claim).admitted
        assert not account.plus(ev.Pure(0.6 * epsilon).cost()).admitted


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_three_fits_fit_where_their_claims_add_up(plan):
    curator = Curator(1.0, 1e-6, random_state=0)
    curator.plan(*plan)
    account = Balance(3.0, 3e-6, "mixed")
    for done in range(3):
        account = account.plus(ev.total_cost(curator.events), (1.0, 1e-6))
        assert account.admitted, done
    assert account.spent <= 3.0 * (1 + 1e-9)


def test_a_mean_and_a_regression_share_an_account():
    account = Balance(3.0, 1e-5, "mixed").plus(ev.GaussianEvent(gaussian_multiplier(1.0, 1e-6)).cost(), (1.0, 1e-6))
    for _ in range(2):
        account = account.plus(ev.Pure(1.0).cost(), (1.0, 1e-6))
        assert account.admitted
    assert not account.plus(ev.Pure(0.1).cost(), (0.1, 1e-6)).admitted


def test_spent_grows_and_reaches_the_limit_with_the_last_charge():
    account, step = Balance(1.0, 1e-6, "gaussian"), ev.GaussianEvent(gaussian_multiplier(1.0, 1e-6, 25)).cost()
    seen = [0.0]
    while account.plus(step).admitted:
        account = account.plus(step)
        seen.append(account.spent)
    assert len(seen) == 25  # 24 charges
    assert all(a < b for a, b in itertools.pairwise(seen))
    assert 0.95 < seen[-1] <= 1.0 < account.plus(step).spent


def test_subsampled_releases_of_no_weight_leave_an_account_as_it_was():
    account = Balance(1.0, 1e-6, "concentrated").plus(ev.SubsampledGaussianEvent(1000.0, 1e-9).cost())
    assert account.admitted and 0 < account.spent < 0.02
    assert account.plus(ev.ZeroConcentrated(0.02).cost()).admitted


def test_a_limit_is_never_above_the_exact_one():
    for epsilon in (1e-3, 0.1, 1.0, 10.0, 300.0):
        for delta in (1e-300, 1e-12, 1e-6, 0.1):
            assert gaussian_delta(epsilon, math.sqrt(gaussian_limit(epsilon, delta))) <= delta
            order, limit = concentrated_limit(epsilon, delta)
            exponent = (order - 1) * (limit - epsilon) - math.log(order - 1) + order * math.log1p(-1 / order)
            assert limit < 0 or math.exp(exponent) <= delta


@pytest.mark.parametrize(("kind", "delta"), [("gaussian", 0.0), ("mixed", 0.0), ("tight", 1e-6), (3, 1e-6)])
def test_kinds_that_do_not_exist(kind, delta):
    with pytest.raises(ValueError, match="kind"):
        check_kind(kind, delta)


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "a\nb", "a\u200bb", "\x1b[31mred", None, 3])
def test_names_that_cannot_be_read(name):
    with pytest.raises(ValueError, match="name"):
        account_name(name)


def test_the_shares_of_delta_add_up_to_no_more_than_delta():
    for shares in KINDS.values():
        assert math.fsum((shares.gaussian, shares.concentrated, shares.addition, shares.failure)) <= 1.0
