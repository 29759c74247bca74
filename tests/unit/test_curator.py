import contextlib
import copy
import math
import os
import pickle
import threading
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from fattail.privacy import (
    Bounded,
    Budget,
    BudgetExceededError,
    Curator,
    Gaussian,
    Laplace,
    PrivacyError,
    SmoothBounded,
    SmoothNoise,
    Subject,
    SubsampledGaussian,
    TopK,
    epsilon_of,
)
from fattail.privacy.listeners import watch
from fattail.rows.order import SecretOrder

ORDER = SecretOrder(bytes(32), 10)
FOLDS = ORDER.folds(2)


def planned(*mechanisms, epsilon=1.0, delta=1e-6, **kwargs):
    curator = Curator(epsilon, delta, random_state=0, **kwargs)
    curator.plan(*mechanisms)
    return curator


def test_charged_before_data_are_seen_and_never_above_the_claim():
    budget = Budget(1.0, 1e-6)
    curator = planned(Gaussian("a", 0.5, count=3), TopK("b", 0.2, k=4), Laplace("c", 0.3), ledger=budget)
    assert 0.99 < budget.spent <= 1.0
    assert epsilon_of(curator.events, 1e-6) <= 1.0
    assert budget.history[0].events == curator.events


def test_a_refused_charge_leaves_no_plan():
    budget = Budget(0.5, 1e-6)
    total = Gaussian("total")
    curator = Curator(1.0, 1e-6, ledger=budget)
    with pytest.raises(BudgetExceededError):
        curator.plan(total)
    assert budget.spent == 0
    with pytest.raises(PrivacyError, match="not in the plan"):
        curator.release(total, Bounded([1.0], 1.0))


def test_enclosing_budget_is_charged():
    with Budget(2.0, 1e-6) as outer:
        planned(Gaussian("a"))
        with Budget(2.0, 1e-6) as inner:
            planned(Gaussian("a"))
    assert len(outer.history) == 2 and len(inner.history) == 1  # a nested budget charges every level
    planned(Gaussian("a"))
    assert len(outer.history) == 2


def test_a_ledger_inside_a_budget_charges_both_or_neither():
    with Budget(1.0, 1e-6) as outer:
        own = Budget(5.0, 1e-5)
        planned(Gaussian("a"), ledger=own)
        with pytest.raises(BudgetExceededError):
            planned(Gaussian("a"), ledger=own)
        assert len(outer.history) == len(own.history) == 1
        with Budget(5.0, 1e-5) as inner, pytest.raises(BudgetExceededError):
            planned(Gaussian("a"))
        assert not inner.history
    with Budget(3.0, 1e-6) as same:
        planned(Gaussian("a"), ledger=same)
    assert len(same.history) == 1


def test_a_charge_says_whose_data_it_is_about():
    budget = Budget(3.0, 1e-5)
    subject = Subject.of(["age", "cost"], "claims.parquet")
    planned(Gaussian("a"), ledger=budget, label="mean", subject=subject)
    (charge,) = budget.history
    assert charge.subject == subject and charge.subject.data != Subject.of(["age", "sex"], "claims.parquet").data
    assert charge.claim == (1.0, 1e-6) and charge.label == "mean" and charge.user and charge.at > 0
    with pytest.raises(ValueError, match="account of its own"):
        planned(Gaussian("a"), ledger=budget, subject=Subject(unit="person"))
    with pytest.raises(ValueError, match="account of its own"):
        planned(Gaussian("a"), ledger=budget, subject=Subject(relation="add-remove"))
    assert len(budget.history) == 1


def test_only_what_was_planned_and_as_often():
    total = Gaussian("total", count=2)
    curator = planned(total)
    for _ in range(2):
        curator.release(total, Bounded([1.0], 1.0))
    with pytest.raises(PrivacyError, match="all are used"):
        curator.release(total, Bounded([1.0], 1.0))
    with pytest.raises(PrivacyError, match="not in the plan"):
        curator.release(Gaussian("other"), Bounded([1.0], 1.0))
    with pytest.raises(PrivacyError, match="fixed once"):
        curator.plan(Gaussian("more"))


def test_an_unfinished_plan_has_no_report():
    total = Gaussian("total", count=2)
    curator = planned(total)
    curator.release(total, Bounded([1.0], 1.0))
    with pytest.raises(PrivacyError, match="not released"):
        curator.report()


@pytest.mark.parametrize(
    ("mechanism", "norm"), [(Gaussian("m"), "linf"), (Gaussian("m"), "l1"), (Laplace("m"), "l2"), (TopK("m"), "l2")]
)
def test_a_norm_the_noise_is_not_calibrated_for_is_refused(mechanism, norm):
    with pytest.raises(PrivacyError, match="calibrated for"):
        planned(mechanism).release(mechanism, Bounded([1.0, 2.0], 1.0, norm))


def test_raw_arrays_are_refused():
    total = Gaussian("total")
    with pytest.raises(PrivacyError, match="Bounded"):
        planned(total).release(total, np.ones(2))


def test_parallel_composition_needs_disjoint_rows():
    step = Gaussian("step", count=2, folds=True)
    curator = planned(step)
    sequential = planned(Gaussian("step", count=2))
    assert curator.noise(step) == pytest.approx(sequential.noise(Gaussian("step", count=2)) / np.sqrt(2), rel=1e-3)
    with pytest.raises(PrivacyError, match="all rows"):
        curator.release(step, Bounded([1.0], 1.0))
    curator.release(step, Bounded([1.0], 1.0, fold=FOLDS[0]))
    with pytest.raises(PrivacyError, match="overlap"):
        curator.release(step, Bounded([1.0], 1.0, fold=ORDER.cut([4, 7])[0]))
    with pytest.raises(PrivacyError, match="overlap"):  # ranks in another order say nothing
        curator.release(step, Bounded([1.0], 1.0, fold=SecretOrder(b"other", 10).folds(2)[1]))
    curator.release(step, Bounded([1.0], 1.0, fold=FOLDS[1]))


def test_a_poisson_sample_serves_one_mechanism_of_its_own_curator():
    """The charge counts on a sample that nothing else has told of."""
    steps = [SubsampledGaussian(name, rate=0.5) for name in ("one", "other")]
    curator, another = (Curator(1.0, 1e-6, random_state=0) for _ in range(2))
    for c in (curator, another):
        c.plan(*steps)
    sample = curator.sample_rows(steps[0], 10)
    curator.release(steps[0], Bounded([1.0], 1.0, fold=sample))
    for c in (curator, another):
        with pytest.raises(PrivacyError, match="one subsampled release"):
            c.release(steps[1], Bounded([1.0], 1.0, fold=sample))


def test_poisson_samples_are_no_folds():
    """Ten samples of all rows for the price of one, if they composed in parallel."""
    with pytest.raises(ValueError, match="overlap"):
        SubsampledGaussian("step", count=10, folds=True, rate=0.5)


def test_a_poisson_sample_serves_once():
    step = SubsampledGaussian("step", count=2, rate=0.5)
    curator = planned(step)
    sample = curator.sample_rows(step, 10)
    assert "True" not in repr(sample)
    curator.release(step, Bounded([1.0], 1.0, fold=sample))
    with pytest.raises(PrivacyError, match="one subsampled release"):
        curator.release(step, Bounded([1.0], 1.0, fold=sample))
    with pytest.raises(PrivacyError, match="drawn by the curator"):
        curator.release(step, Bounded([1.0], 1.0))


def test_smooth_noise_checks_smoothness_and_keeps_its_scale_private():
    trimmed = SmoothNoise("trimmed", coordinates=2)
    curator = planned(trimmed)
    t = curator.smoothness(trimmed)
    with pytest.raises(PrivacyError, match="smoothness"):
        curator.release(trimmed, SmoothBounded(np.zeros(2), np.ones(2), 2 * t))
    with pytest.raises(PrivacyError, match="coordinates"):
        curator.release(trimmed, SmoothBounded(np.zeros(3), np.ones(3), t))
    curator.release(trimmed, SmoothBounded(np.zeros(2), 1234.5 * np.ones(2), t))
    report = curator.report()
    assert report.releases[0].noise is None and report.releases[0].sensitivity is None
    assert "1234" not in str(report.to_dict()) + str(report) + report._repr_html_()


def test_report_tells_the_truth_about_numerics_and_seeds():
    total = Gaussian("total")
    seeded = planned(total)
    seeded.release(total, Bounded([1.0], 0.5))
    assert seeded.report().seeded and seeded.report().numerics == "idealized"
    secure = Curator(1.0, 1e-6)
    secure.plan(total)
    secure.release(total, Bounded([1.0], 0.5))
    report = secure.report()
    assert not report.seeded and report.numerics == "exact"
    record = report.releases[0]
    assert record.sensitivity == 0.5 and record.noise == pytest.approx(secure.noise(total, 0.5))
    assert report.to_dict()["releases"][0]["share"] == 1.0
    assert "exact" in report._repr_html_()


@pytest.mark.parametrize("random_state", [-1, 1.5, "0", True, np.random.default_rng(0)])
def test_random_state_is_none_or_an_int(random_state):
    with pytest.raises(ValueError, match="random_state"):
        Curator(1.0, 1e-6, random_state=random_state)


def test_a_ledger_must_be_an_account():
    with pytest.raises(ValueError, match="account"):
        Curator(1.0, 1e-6, ledger="budget.db")


def test_seeded_runs_repeat():
    total = Gaussian("total")
    a, b = (planned(total).release(total, Bounded([1.0, 2.0], 1.0)) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_duplicate_names_and_empty_plans_are_refused():
    with pytest.raises(ValueError, match="distinct"):
        planned(Gaussian("a"), Laplace("a"))
    with pytest.raises(ValueError, match="at least one"):
        planned()


def test_a_waived_release_stays_charged_and_cannot_be_made():
    counts = Gaussian("counts", count=2)
    curator = planned(counts)
    curator.release(counts, Bounded([1.0], 1.0))
    curator.waive(counts)
    with pytest.raises(PrivacyError, match="all are used"):
        curator.release(counts, Bounded([1.0], 1.0))
    with pytest.raises(PrivacyError, match="no release left"):
        curator.waive(counts)
    report = curator.report()
    assert report.events == planned(counts).events
    assert report.releases[0].count == 2
    never = planned(counts)
    never.waive(counts)
    never.waive(counts)
    assert never.report().releases[0].noise is None


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_parts_of_a_release_are_no_more_than_the_whole(kind):
    mean, counts = kind("mean", parts=3), TopK("location")
    curator = planned(mean, counts)
    charged, whole = curator.events, curator.rho(mean)
    look = curator.split(mean, "look", 0.1)
    again = curator.split(mean, "again", 0.3)
    budgets = [curator.rho(m) for m in (mean, look, again)]
    spent = sum(np.sqrt(budgets)) if kind is Laplace else sum(budgets)
    limit = np.sqrt(whole) if kind is Laplace else whole
    assert limit * (1 - 1e-9) < spent <= limit
    assert curator.events == charged
    assert kind is Laplace or charged[0].count == 3  # the slack of every part is charged
    with pytest.raises(PrivacyError, match="cannot be divided further"):
        curator.split(mean, "third", 0.1)
    with pytest.raises(PrivacyError, match="cannot be divided further"):
        curator.split(look, "part of a part", 0.1)
    curator.release(look, Bounded([1.0], 1.0, kind.norm))
    with pytest.raises(PrivacyError, match="all are used"):
        curator.release(look, Bounded([1.0], 1.0, kind.norm))
    curator.waive(again)
    curator.waive(counts)
    with pytest.raises(PrivacyError, match="not released"):
        curator.report()
    curator.release(mean, Bounded([1.0], 1.0, kind.norm))
    shares = {r.name: r.share for r in curator.report().releases}
    assert set(shares) == {"mean", "look", "again", "location"}
    assert shares["mean"] > shares["again"] > shares["look"]


def test_what_cannot_be_divided_is_not():
    whole, mean = Laplace("whole"), Laplace("mean", parts=2)
    curator = planned(whole, mean)
    with pytest.raises(PrivacyError, match="cannot be divided"):
        curator.split(whole, "look", 0.1)
    for fraction in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="leave something"):
            curator.split(mean, "look", fraction)
    with pytest.raises(ValueError, match="name of its own"):
        curator.split(mean, "whole", 0.1)
    with pytest.raises(PrivacyError, match="not in the plan"):
        planned(whole).split(mean, "look", 0.1)
    curator.release(mean, Bounded([1.0], 1.0, "l1"))
    with pytest.raises(PrivacyError, match="cannot be divided"):
        curator.split(mean, "look", 0.1)
    for plan in (
        lambda: TopK("selection", parts=2),
        lambda: SubsampledGaussian("sample", rate=0.5, parts=2),
        lambda: Laplace("many", count=2, parts=2),
        lambda: Gaussian("folds", folds=True, parts=2),
        lambda: Laplace("none", parts=0),
        lambda: Laplace("half", parts=1.5),
    ):
        with pytest.raises(ValueError, match="cannot be divided"):
            plan()


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_parts_of_a_release_never_exceed_it(kind):
    """Exactly, whatever rounds: also where a part is nearly all of it."""
    rng = np.random.default_rng(0)
    for first in (1e-12, 1e-3, 0.2, 0.5, 1 - 1e-9, *rng.random(20).tolist()):
        for second in (1e-9, 0.3, 1 - 1e-6):
            curator, whole = Curator(float(rng.uniform(0.01, 20)), 1e-6, random_state=0), kind("whole", parts=3)
            curator.plan(whole, kind("other"))
            parts = [curator.split(whole, "a", first), curator.split(whole, "b", (1 - first) * second), whole]
            # Epsilons of pure releases add up, and rhos of Gaussian ones.
            size = (lambda rho: Fraction(math.sqrt(2 * rho))) if kind is Laplace else Fraction
            assert sum(size(curator.rho(part)) for part in parts) <= size(whole.rho(curator._unit))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_curator_cannot_be_copied(again):
    """A copy of a curator released a second time what had been charged once."""
    curator = Curator(1.0, 0.0)
    curator.plan(Laplace("total"))
    with pytest.raises(PrivacyError, match="copied"):
        again(curator)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_curator_does_not_release_in_a_forked_process():
    """A watcher that forks in the middle of a fit went on with it twice, for one charge."""
    curator, total = Curator(1.0, 0.0), Laplace("total")
    curator.plan(total)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            curator.release(total, Bounded([1.0], 1.0, "l1"))
            os.write(writer, b"released")
        except PrivacyError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"refused"
    curator.release(total, Bounded([1.0], 1.0, "l1"))


class Slow(Laplace):
    """A planted barrier: whoever checks or measures a release waits until another thread has come as far, or a while."""

    barrier = None

    def check(self, bounded, rho):
        super().check(bounded, rho)
        self.meet()

    def validate(self, rho):
        self.meet()

    def part(self, rho, fraction):
        self.meet()
        return super().part(rho, fraction)

    def meet(self):
        if self.barrier is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.barrier.wait(0.5)


def at_once(*tasks):
    """Results of tasks in threads of their own; None for those that the curator refused."""
    results = [None] * len(tasks)

    def run(k):
        with contextlib.suppress(PrivacyError):
            results[k] = tasks[k]()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(tasks))]
    with mock.patch.object(Slow, "barrier", threading.Barrier(len(tasks))):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def test_two_threads_do_not_release_twice_what_was_charged_once():
    curator, total = Curator(1.0, 0.0), Slow("total")
    curator.plan(total)
    released = at_once(*2 * [lambda: curator.release(total, Bounded([1.0], 1.0, "l1"))])
    assert sum(value is not None for value in released) == 1


def test_two_threads_do_not_plan_twice():
    """The second plan brought releases of its own, with the noise of one plan."""
    curator, budget = Curator(1.0, 0.0), Budget(5.0)
    curator._ledger = budget
    at_once(*(lambda name=name: curator.plan(Slow(name)) for name in ("one", "other")))
    assert len(budget.history) == 1 and len(curator.events) == 1


def test_two_threads_do_not_waive_and_release_one_release():
    curator, total = Curator(1.0, 0.0), Slow("total")
    curator.plan(total)
    at_once(lambda: curator.release(total, Bounded([1.0], 1.0, "l1")), lambda: (total.meet(), curator.waive(total)))
    assert curator._done["total"] == 1


def test_a_release_is_not_divided_while_it_is_made():
    """The whole was released while a part of it was on its way."""
    released, spent = threading.Event(), []

    class Watched(Laplace):
        def part(self, rho, fraction):
            released.wait(0.5)
            return super().part(rho, fraction)

        def sample(self, source, bounded, rho):
            spent.append(math.sqrt(rho))
            return super().sample(source, bounded, rho)

    curator, total, value = Curator(1.0, 0.0), Watched("total", parts=2), Bounded([1.0], 1.0, "l1")
    curator.plan(total)

    def divide():
        with contextlib.suppress(PrivacyError):
            curator.release(curator.split(total, "part", 0.5), value)

    thread = threading.Thread(target=divide)
    thread.start()
    curator.release(total, value)
    released.set()
    thread.join()
    assert sum(spent) <= math.sqrt(total.rho(curator._unit))


def test_an_interrupted_release_counts():
    """A sample may have been drawn, and may have been seen by a watcher."""
    curator, total = Curator(1.0, 0.0), Laplace("total")
    curator.plan(total)
    with mock.patch.object(Laplace, "sample", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        curator.release(total, Bounded([1.0], 1.0, "l1"))
    with pytest.raises(PrivacyError, match="all are used"):
        curator.release(total, Bounded([1.0], 1.0, "l1"))


def test_a_watcher_that_raises_does_not_give_the_release_back():
    curator, total = Curator(1.0, 0.0), Laplace("total")
    curator.plan(total)
    seen = []

    def interrupted(progress):
        seen.append(progress.value)
        raise KeyboardInterrupt

    with watch(interrupted), pytest.raises(KeyboardInterrupt):
        curator.release(total, Bounded([1.0], 1.0, "l1"))
    with pytest.raises(PrivacyError, match="all are used"):
        curator.release(total, Bounded([1.0], 1.0, "l1"))
    assert len(seen) == 1


def test_an_interrupted_charge_leaves_no_plan():
    curator, total = Curator(1.0, 0.0), Laplace("total")
    with (
        mock.patch("fattail.privacy.curator.charge_all", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
        Budget(9.0),
    ):
        curator.plan(total)
    with pytest.raises(PrivacyError, match="not in the plan"):
        curator.release(total, Bounded([1.0], 1.0, "l1"))
