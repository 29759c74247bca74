"""One charge for a fit whose plan depends on an earlier answer."""

import contextlib
import copy
import os
import pickle
import threading

import numpy as np
import pytest

import fattail
import listed
from fattail.privacy import BudgetExceededError, Curator, Gaussian, Laplace, PrivacyError
from fattail.privacy.accounts import covers
from fattail.privacy.advance import Advance, pay
from fattail.privacy.events import total_cost


@pytest.mark.parametrize(
    ("options", "columns"),
    [({"missing": "drop"}, 3), ({"missing": "drop"}, 1), ({"relation": "add-remove"}, 2), ({"relation": "add-remove"}, 40)],
)
def test_a_fit_whose_rows_are_counted_first_is_one_charge(options, columns):
    X = np.random.default_rng(0).normal(size=(2000, columns))
    model = fattail.DPMean(epsilon=1.0, **options)
    with fattail.Budget(epsilon=0.5, delta=1e-5) as budget, pytest.raises(fattail.BudgetExceededError):
        model.fit(X)
    assert budget.spent == 0
    with fattail.Budget(epsilon=1.0, delta=1e-6) as budget:  # what fits is admitted, even if it uses everything up
        model.fit(X)
    assert len(budget.history) == 1 and budget.spent <= 1.0


# Methods that need the number of rows refuse add-remove before they read data.
NEED_N = {"trimmed", "local", "knowledge_transfer", "two_stage"}
METHODS = [(estimator, method) for estimator, method in listed.METHODS if method not in NEED_N]


@pytest.mark.parametrize(("estimator", "method"), METHODS)
def test_a_plan_stays_within_what_was_charged_before(estimator, method):
    """Whatever number of rows is released, each method's plan costs at most the charge, by every route of an account."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.normal(size=600)
    target = () if estimator in listed.UNSUPERVISED else ((y > 0).astype(int) if estimator in listed.CLASSIFIERS else y,)
    model = getattr(fattail, estimator)(method=method, relation="add-remove", random_state=0, **listed.example(estimator))
    with fattail.Budget(epsilon=1.0, delta=1e-6) as budget:
        model.fit(X, *target)
    (charge,) = budget.history
    assert charge.claim == (1.0, 1e-6)
    charged, spent = total_cost(charge.events), total_cost(model.privacy_.events)
    assert covers(charged, spent)
    if "Gaussian" in {type(event).__name__ for event in model.privacy_.events}:
        assert spent.mu2 + spent.pure_mu2 > 0.999 * (charged.mu2 + charged.pure_mu2)


def test_no_fit_is_refused_after_a_part_of_it_was_charged():
    """Near the limit of an account whose charges add up as Gaussian releases do."""
    rng = np.random.default_rng(0)
    many, one = np.ones((50, 30)), rng.lognormal(size=(20_000, 1))
    private = {"relation": "add-remove", "delta": 1e-6, "random_state": 0}
    with fattail.Budget(epsilon=1.0, delta=1e-5) as budget:
        with contextlib.suppress(BudgetExceededError):
            for _ in range(9):
                fattail.DPMean(epsilon=0.3, method="truncated", moment_bound=np.ones(30), **private).fit(many)
        refused = 0
        for epsilon in (0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01):
            before = len(budget.history)
            try:
                fattail.DPMean(epsilon=epsilon, **private).fit(one)
            except BudgetExceededError:
                refused += 1
                assert len(budget.history) == before
        assert refused > 0


def test_an_advance_serves_one_plan():
    (paid,) = pay(None, [((0.5, 0.0), True)], "twice", claim=(0.5, 0.0))
    Curator(0.5, 0.0, advance=paid).plan(Laplace("first"))
    with pytest.raises(PrivacyError, match="one plan"):
        Curator(0.5, 0.0, advance=paid).plan(Laplace("second"))
    with pytest.raises(PrivacyError, match="advance is for"):
        Curator(0.7, 0.0, advance=pay(None, [((0.5, 0.0), True)], "", claim=(0.5, 0.0))[0])


def test_a_gaussian_plan_is_not_paid_by_a_pure_advance():
    (paid,) = pay(None, [((0.5, 0.0), True)], "pure", claim=(0.5, 0.0))
    with pytest.raises(ValueError, match="private"):
        Curator(0.5, 0.0, advance=paid).plan(Gaussian("sum"))


def test_a_regression_of_a_private_number_of_rows_is_refused_before_it_is_counted():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    with fattail.Budget(epsilon=0.5, delta=1e-5) as budget, pytest.raises(fattail.BudgetExceededError):
        fattail.DPLinearRegression(epsilon=1.0, relation="add-remove").fit(X, X[:, 0])
    assert budget.spent == 0


def test_two_threads_do_not_use_one_advance():
    (paid,) = pay(None, [((0.5, 0.0), True)], "twice", claim=(0.5, 0.0))
    barrier, used = threading.Barrier(2), []

    def use():
        with contextlib.suppress(PrivacyError):
            used.append(paid.use())

    def trace(frame, event, _):
        if frame.f_code is Advance.use.__code__ and event == "line":
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(0.2)
        return trace

    threading.settrace(trace)
    try:
        threads = [threading.Thread(target=use) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.settrace(None)
    assert len(used) == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_advance_cannot_be_copied(again):
    """A copy paid for a second plan."""
    (paid,) = pay(None, [((0.5, 0.0), True)], "twice", claim=(0.5, 0.0))
    with pytest.raises(PrivacyError, match="copied"):
        again(paid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_advance_serves_the_process_that_paid_it():
    (paid,) = pay(None, [((0.5, 0.0), True)], "twice", claim=(0.5, 0.0))
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            Curator(0.5, 0.0, advance=paid).plan(Laplace("total"))
            os.write(writer, b"planned")
        except PrivacyError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"refused"
