"""A part of a plan that another algorithm runs in."""

import math

import numpy as np
import pytest

from fattail.privacy import Bounded, Curator, Gaussian, PrivacyError, TopK, gaussian_multiplier
from fattail.privacy.allotment import Allotment


def planned(parts=8, share=0.5):
    curator, first, rest = Curator(1.0, 1e-6, random_state=0), Gaussian("first", 1 - share), Gaussian("rest", share, parts=parts)
    curator.plan(first, rest)
    return curator, first, rest


def test_the_parts_have_the_budget_of_the_release_and_no_more():
    curator, first, rest = planned()
    whole = curator.rho(rest)
    inner = Allotment(curator, rest)
    plan = (Gaussian("a", 1.0, count=3), Gaussian("b", 2.0))
    inner.plan(*plan)
    spent = sum(m.count * inner.rho(m) for m in plan)
    assert (1 - 1e-5) * whole < spent <= whole
    assert inner.noise(plan[0]) == pytest.approx(math.sqrt(6) * inner.noise(plan[1]))
    assert inner.noise(first) == curator.noise(first)


def test_its_epsilon_is_that_of_its_part_alone():
    curator, _, rest = planned(share=0.25)
    inner = Allotment(curator, rest)
    assert gaussian_multiplier(inner.epsilon, inner.delta) == pytest.approx(2 * gaussian_multiplier(1.0, 1e-6), rel=1e-3)


def test_every_release_is_made_once_and_reported():
    curator, first, rest = planned()
    inner, a, b = Allotment(curator, rest), Gaussian("a", count=2), Gaussian("b")
    inner.plan(a, b)
    value = Bounded([1.0], 0.01)
    assert np.isfinite([*inner.release(a, value), *inner.release(a, value)]).all()
    with pytest.raises(PrivacyError, match="all are used"):
        inner.release(a, value)
    with pytest.raises(PrivacyError, match="not released"):
        curator.report()
    inner.waive(b)
    inner.release(first, value)  # the whole's own releases are made by the whole
    names = [release.name for release in curator.report().releases]
    assert names == ["first", "rest", "rest: a, 1", "rest: a, 2", "rest: b"]
    assert sum(release.share for release in curator.report().releases) == pytest.approx(1.0)
    with pytest.raises(PrivacyError):
        inner.release(first, value)


def test_a_plan_that_does_not_fit_is_refused():
    curator, _, rest = planned(parts=3)
    with pytest.raises(PrivacyError, match="only a plan of Gaussian releases"):
        Allotment(curator, rest).plan(Gaussian("a"), TopK("b"))
    with pytest.raises(PrivacyError, match="cannot be divided further"):
        Allotment(curator, rest).plan(Gaussian("a", count=3))
    curator, _, rest = planned()
    inner = Allotment(curator, rest)
    inner.plan(Gaussian("a"))
    with pytest.raises(PrivacyError, match="fixed once"):
        inner.plan(Gaussian("a"))
    curator, _, rest = planned()
    steps = Allotment(curator, rest)
    steps.plan(Gaussian("steps", parts=3))
    with pytest.raises(PrivacyError, match="fixed once"):
        steps.plan(Gaussian("more steps", parts=3))
    curator, _, rest = planned()
    inner = Allotment(curator, rest)
    inner.plan(Gaussian("a"))
    with pytest.raises(PrivacyError, match="not in the plan"):
        inner.release(Gaussian("c"), Bounded([1.0], 0.01))
    with pytest.raises(PrivacyError, match="all are used"):  # what was divided is not released as a whole
        curator.release(rest, Bounded([1.0], 0.01))


def test_the_secret_order_of_rows_is_that_of_the_whole():
    curator, _, rest = planned()
    inner = Allotment(curator, rest)
    assert np.array_equal(inner.subset(100, 30).positions(100), curator.subset(100, 30).positions(100))


def test_a_release_may_be_divided_after_earlier_answers():
    """The parts and the rest of it have its share of the budget; the whole is closed when nothing is left to divide."""
    curator, first, rest = planned()
    whole = curator.rho(rest)
    inner, a, steps = Allotment(curator, rest), Gaussian("a", 0.5), Gaussian("steps", 0.5, parts=3)
    inner.plan(a, steps)
    value = Bounded([1.0], 0.01)
    assert inner.rho(steps) == pytest.approx(whole / 2, rel=1e-5)
    assert inner.noise(steps) == pytest.approx(inner.noise(a), rel=1e-5)
    early = inner.split(steps, "early", 0.25)
    assert inner.rho(early) == pytest.approx(whole / 8, rel=1e-5)
    assert inner.rho(steps) == pytest.approx(3 * whole / 8, rel=1e-5)
    with pytest.raises(ValueError, match="must leave something"):
        inner.split(steps, "too much", 0.75)
    for mechanism in (a, early, steps, first):
        inner.release(mechanism, value)
    with pytest.raises(PrivacyError):
        inner.release(steps, value)
    assert sum(release.share for release in curator.report().releases) == pytest.approx(1.0)
