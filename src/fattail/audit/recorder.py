"""Record a fit, replay it on a neighbor, and believe nothing that the library says about itself.

The first run is recorded below the library: what goes into every OpenDP measurement, what comes
out, and every byte asked of the system's random source. The second run, on a neighbor, gets the
same outputs and the same bytes. Then

* how far apart the inputs of a measurement lie, put into *its own* privacy map, is what this pair
  of datasets really spends there, and that must not exceed what was charged for the release;
* all that can be seen of the fit (numbers, files, warnings, errors, logs, the sequence of releases)
  must be the same: both runs had the same noisy answers, so any difference came from a row.

`fattail.audit.replay` compares values with the sensitivities that the code declares; nothing here
reads a declared sensitivity. The idea is that of record-and-replay auditing (Re:cord-play, in
"Privacy in theory, bugs in practice").
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from fattail.audit.artifacts import artifacts, causes, plain
from fattail.audit.sinh_normal import SinhNormal, bent
from fattail.audit.spendings import Noise, SmoothCost, rho_in
from fattail.privacy import Curator, Mechanism, events, ledger
from fattail.privacy import curator as curator_module
from fattail.privacy.accountant import epsilon_of
from fattail.privacy.ledger import charge_all
from fattail.privacy.mechanisms import SmoothNoise
from fattail.privacy.noise import SecureNoise
from fattail.privacy.peeling import LaplacePeeling
from fattail.results.progress import watch

# Privacy maps are rounded up, and integrals are sums.
_ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class Spending:
    """What a pair of datasets spends in one release.

    Attributes
    ----------
    release : str
        Its name in the plan; empty for noise outside of any release.
    spent : tuple of events
        One for each use of noise whose inputs differ.
    charged : event or None
        What the plan charges for one such release.
    """

    release: str
    spent: tuple[events.Event, ...]
    charged: events.Event | None

    @property
    def ratio(self) -> float:
        """Spent over charged, as a ratio of sensitivities; above 1 refutes the claim."""
        if not self.spent or self.charged is None:
            return math.inf if self.spent else 0.0
        if isinstance(self.charged, events.Pure):
            # So many pure releases of a given size: compared one by one, or by their sums if there are more.
            sizes = [e.epsilon for e in self.spent if isinstance(e, events.Pure)]
            few = len(sizes) <= self.charged.count
            return (max(sizes) if few else sum(sizes) / self.charged.count) / self.charged.epsilon / _ROUNDING
        return math.sqrt(sum(map(rho_in, self.spent)) / rho_in(self.charged)) / _ROUNDING


@dataclass(frozen=True)
class Finding:
    """What a pair of neighbors shows about a fit.

    Attributes
    ----------
    releases : tuple of Spending
    escapes : tuple of str
        What differs although all noisy answers were the same.
    diverged : str
        Where the replay left the recorded sequence of steps; empty if it did not.
    early : tuple of str
        Releases that were sampled before the account was charged.
    coarse : tuple of str
        Releases whose noise lies on a grid that is stretched by a private scale: their last bits tell the data.
    claim : tuple of (epsilon, delta), or None
        Of the fit's report; None if the fit raised.
    """

    releases: tuple[Spending, ...]
    escapes: tuple[str, ...]
    diverged: str
    early: tuple[str, ...]
    coarse: tuple[str, ...]
    claim: tuple[float, float] | None

    @property
    def ratio(self) -> float:
        """Largest of the releases' ratios; 0 if the inputs of all noise were the same integers."""
        return max((one.ratio for one in self.releases), default=0.0)

    @property
    def spent(self) -> tuple[events.Event, ...]:
        """All that this pair spends."""
        return tuple(event for one in self.releases for event in one.spent)

    @property
    def epsilon(self) -> float:
        """The same as an epsilon, at the claim's delta."""
        return epsilon_of(self.spent, self.claim[1]) if self.claim and self.spent else 0.0

    @property
    def violations(self) -> tuple[str, ...]:
        """In words, all that refutes the claim; empty if nothing does."""
        found = [
            f"{r.release or 'outside of any release'}: moves {r.ratio:.4g} of its charge" for r in self.releases if r.ratio > 1
        ]
        found += [f"differs between neighbors: {name}" for name in self.escapes]
        found += [f"sampled before the charge: {name}" for name in self.early]
        found += [f"the last bits tell the scale: {name}" for name in self.coarse]
        if self.diverged:
            found.append(f"the sequence of steps depends on a row: {self.diverged}")
        if self.claim is not None and self.epsilon > self.claim[0] * _ROUNDING:
            found.append(f"epsilon {self.epsilon:.4g} spent where {self.claim[0]:g} is claimed")
        return tuple(found)


def record_and_replay(
    fit: Callable[..., Any], data: tuple[Any, ...], neighbor: tuple[Any, ...], order: Sequence[int] | None = None
) -> Finding:
    """Record ``fit(*data)``, replay ``fit(*neighbor)`` with the same noisy answers, and compare.

    Parameters
    ----------
    fit : callable
        Makes an estimator *without* ``random_state``, fits it and returns it. With an account as
        ``ledger`` (a new one for each call) the order of charges and samples is checked too.
    data, neighbor : tuples
        Arguments of ``fit``, in any physical form.
    order : sequence of int, optional
        Where the rows of ``neighbor`` stood in ``data``, if its rows were moved too: secret labels of rows
        go with them. Labels that do not depend on values are as likely in one order as in another.

    Returns
    -------
    Finding
        Its ``violations`` are empty if nothing refutes the claim on this pair.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail import audit
    >>> ours, theirs = (np.concatenate([[[row]], np.zeros((99, 1))]) for row in (1e9, -1e9))
    >>> def fit(X):
    ...     return fattail.DPMean(epsilon=1.0, delta=1e-5, method="truncated", moment_bound=1.0).fit(X)
    >>> finding = audit.record_and_replay(fit, (ours,), (theirs,))
    >>> finding.violations, round(finding.ratio, 3)
    ((), 1.0)
    """
    tape = Tape(order)
    ours = observed(fit, data, tape)
    tape.rewind()
    escapes, diverged = [], ""
    try:
        theirs = observed(fit, neighbor, tape)
        escapes = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if ("error" in ours) != ("error" in theirs):
            escapes = ["error"]  # of two runs one has no results to compare
        if tape.left:
            diverged = f"it ends {tape.left} steps early"
    except _Diverged as error:
        diverged = str(error)
    return Finding(tape.spendings(), tuple(escapes), diverged, tape.early(), tape.coarse, ours["claim"])


class _Diverged(BaseException):
    """The replay took a step that the record does not have; no ``except Exception`` of a fit may hide it."""


@dataclass(eq=False)
class _Step:
    """One step of a fit: what must be public about it, what is private in it, and what came out."""

    kind: str
    public: Any
    private: Any
    output: Any
    release: int
    cost: Callable[[Any, Any, Any], tuple[events.Event, ...]] | None
    other: Any = field(default=None)


class Tape:
    """All steps of a fit in their order; the second time they are compared, and answered from the record."""

    def __init__(self, order: Sequence[int] | None = None) -> None:
        self.steps: list[_Step] = []
        self.coarse: tuple[str, ...] = ()
        self._order = order
        self._plan: list[tuple[str, events.Event | None]] = [("", None)]  # the releases, after all that belongs to none
        self._at = -1  # recording
        self._release = self._count = 0
        self._inside = self._picking = False

    def rewind(self) -> None:
        """From now on, replay."""
        self._at = self._release = self._count = 0

    @property
    def left(self) -> int:
        return len(self.steps) - self._at

    def early(self) -> tuple[str, ...]:
        """Releases before the first charge, if there is one."""
        charges = [k for k, step in enumerate(self.steps) if step.kind == "charge"]
        early = self.steps[: charges[0]] if charges else []
        return tuple(dict.fromkeys(self._plan[step.release][0] for step in early if step.cost))

    def spendings(self) -> tuple[Spending, ...]:
        spent: list[list[events.Event]] = [[] for _ in self._plan]
        for step in self.steps:
            if step.cost is not None and step.other is not None:
                spent[step.release] += step.cost(step.private, step.other, step.output)
        found = []
        for (name, charged), each in zip(self._plan, spent, strict=True):
            if isinstance(charged, events.SubsampledGaussian):
                each = [
                    events.SubsampledGaussian(e.noise_multiplier, charged.rate) for e in each if isinstance(e, events.Gaussian)
                ]
            found.append(Spending(name, tuple(each), charged))
        return tuple(found)

    def step(self, kind: str, public: Any, private: Any, sample: Callable[[], Any], cost: Any = None) -> Any:
        """Carry out a step and record it; or compare it, and answer from the record."""
        if self._inside:  # part of a step that is taken as a whole
            return sample()
        if self._at < 0:
            self._inside = True
            try:
                output = sample()
            finally:
                self._inside = False
            self.steps.append(_Step(kind, public, private, copy.deepcopy(output), self._release, cost))
            return output
        if not self.left:
            raise _Diverged(f"{kind} after the end of the record")
        step = self.steps[self._at]
        if (step.kind, step.public) != (kind, public):
            raise _Diverged(f"step {self._at} is {kind} {public}, and was {step.kind} {step.public}")
        self._at += 1
        step.other = private
        return copy.deepcopy(step.output)

    @contextlib.contextmanager
    def taps(self) -> Iterator[None]:
        """Everything through which randomness enters, budget is spent, or answers leave."""
        import opendp.core

        invoke, system, release, waive, peel = (
            opendp.core.measurement_invoke, os.urandom, Curator.release, Curator.waive, LaplacePeeling.sample,
        )  # fmt: skip

        def tapped_invoke(measurement: Any, value: Any) -> Any:
            noise = Noise(measurement, self._picking)
            return self.step(
                noise.kind, (noise, np.shape(value)), np.array(value), lambda: invoke(measurement, value), noise.cost
            )

        def tapped_system(size: int) -> Any:
            return self.step("bytes", size, None, lambda: system(size)) if _is_ours(sys._getframe(1)) else system(size)

        def tapped_rows(source: Any, rate: float, size: int) -> Any:
            # All rows are drawn, so that the changed one is. The charge knows the rate.
            return self.step("rows", (rate, size), None, lambda: np.ones(size, dtype=np.bool_))

        def tapped_release(curator: Curator, mechanism: Mechanism, bounded: Any) -> Any:
            one = replace(mechanism, share=curator.rho(mechanism), count=1, folds=False, parts=1).event(1.0)
            self.step("release", (mechanism, one), None, lambda: self._plan.append((mechanism.name, one)))
            self._count += 1
            self._release = self._count
            try:
                return release(curator, mechanism, bounded)
            finally:
                self._release = 0

        def tapped_waive(curator: Curator, mechanism: Mechanism) -> None:
            self.step("waive", mechanism, None, lambda: None)
            waive(curator, mechanism)

        def tapped_peel(*arguments: Any) -> Any:
            # Of each noisy vector only the largest entry's index is used.
            self._picking = True
            try:
                return peel(*arguments)
            finally:
                self._picking = False

        patches: list[Any] = [
            mock.patch.dict(os.environ, FATTAIL_NUM_THREADS="1"),  # one order of steps
            mock.patch.object(opendp.core, "measurement_invoke", tapped_invoke),
            mock.patch.object(os, "urandom", tapped_system),
            mock.patch.object(random, "_urandom", tapped_system),  # of `secrets`, and of numpy's seeds
            mock.patch.object(SecureNoise, "bernoulli", tapped_rows),
            mock.patch.object(Curator, "release", tapped_release),
            mock.patch.object(Curator, "waive", tapped_waive),
            mock.patch.object(LaplacePeeling, "sample", tapped_peel),
        ]
        accounts = [cls for cls in vars(ledger).values() if isinstance(cls, type) and "charge" in vars(cls)]
        patches += [mock.patch.object(cls, "charge", self._charging(vars(cls)["charge"])) for cls in accounts]
        patches.append(mock.patch.object(curator_module, "charge_all", self._charging(charge_all)))
        patches.append(self._labels())
        smooth = [cls for cls in (SmoothNoise, *SmoothNoise.__subclasses__()) if "sample" in vars(cls)]
        patches += [mock.patch.object(cls, "sample", self._smooth(vars(cls)["sample"])) for cls in smooth]
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            yield

    def _charging(self, charge: Callable[..., None]) -> Callable[..., None]:
        def tapped(account: Any, plan: Any, *rest: Any, **named: Any) -> None:
            plan = tuple(plan)
            self.step("charge", plan, None, lambda: None)
            charge(account, plan, *rest, **named)

        return tapped

    def _labels(self) -> Any:
        """Secret labels follow the rows into their new order."""
        SecretOrder = import_module("fattail.rows.order").SecretOrder
        drawn = SecretOrder._drawn

        def tapped(secret: Any, start: int, stop: int, purpose: bytes) -> Any:
            if self._order is None or self._at < 0:
                return drawn(secret, start, stop, purpose)
            return drawn(secret, 0, secret.n, purpose)[np.asarray(self._order)][start:stop]

        return mock.patch.object(SecretOrder, "_drawn", tapped)

    def _smooth(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """Noise of a private scale is no public measurement of a private value: it is taken as a whole."""

        def tapped(mechanism: Any, source: Any, bounded: Any, rho: float) -> Any:
            if self._inside:
                return sample(mechanism, source, bounded, rho)

            def at(z: float) -> Any:
                draws = SimpleNamespace(smooth=lambda value, scale, width: value + scale * bent(z, width))
                return sample(mechanism, draws, bounded, rho)

            noise, many = SinhNormal.of(at), -(-100 // bounded.size)
            if self._at < 0 and not self.coarse:
                self._inside = True
                outputs = np.array([np.ravel(sample(mechanism, source, bounded, rho)) for _ in range(many)])
                self._inside = False
                self.coarse = (mechanism.name,) if noise.lattice(outputs) else ()
            one = replace(mechanism, share=rho, count=1, folds=False).event(1.0)
            public = (mechanism, one, np.shape(bounded._value))
            return self.step("smooth noise", public, noise, lambda: sample(mechanism, source, bounded, rho), SmoothCost(one))

        return tapped


# They name files at random.
_LEDGERS = ("fattail.privacy.budget", "fattail.privacy.chain", "fattail.privacy.witness")


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the library asks for bytes for its noise, and nobody to name files or tasks: a ledger, a compiler, a cluster."""
    while frame is not None and frame.f_globals.get("__name__") in ("random", "secrets"):
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return name.startswith("fattail.") and name not in _LEDGERS


def observed(fit: Callable[..., Any], data: tuple[Any, ...], tape: Tape) -> dict[str, Any]:
    """All that somebody who is not the curator sees of a fit."""
    seen: dict[str, Any] = {"claim": None}
    text, log, told = io.StringIO(), io.StringIO(), []
    handler = logging.StreamHandler(log)
    logger = logging.getLogger("fattail")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with (
            tape.taps(),
            watch(lambda p: told.append((p.name, p.done, p.total, plain(p.value)))),
            contextlib.redirect_stdout(text),
            contextlib.redirect_stderr(text),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            estimator = None
            try:
                estimator = fit(*data)
            except Exception as error:
                seen["error"] = causes(error)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    if estimator is not None:
        seen |= artifacts(estimator)
    seen["warnings"] = [(w.category.__name__, str(w.message), w.lineno) for w in caught]
    return seen | {"printed": text.getvalue(), "logged": log.getvalue(), "progress": told}
