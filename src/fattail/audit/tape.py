"""The tape of a fit: each use of noise and each charge, recorded the first time and answered from the record the second time."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from fattail.audit.findings import Spending
from fattail.audit.sinh_normal import SinhNormal, sinh_map
from fattail.audit.spendings import GaussianCost, LaplaceCost, NamesCost, Noise, SmoothCost
from fattail.privacy import Curator, Mechanism, events, ledger
from fattail.privacy import advance as advance_module
from fattail.privacy import curator as curator_module
from fattail.privacy import noise as noise_module
from fattail.privacy.discrete_normal import discrete_gaussian
from fattail.privacy.geometric import discrete_laplace
from fattail.privacy.ledger import charge_all
from fattail.privacy.mechanisms import SmoothNoise
from fattail.privacy.noise import SecureNoise
from fattail.privacy.peeling import LaplacePeeling
from fattail.statistics.partition import NamesAboveThreshold


class Diverged(BaseException):
    """The replay took a step that is not in the record. It is a BaseException, so that no ``except Exception`` of a fit hides
    it."""


@dataclass(eq=False)
class _Step:
    """One step of a fit: its public part, its private input, and its output."""

    kind: str
    public: Any
    private: Any
    output: Any
    release: int
    cost: Callable[[Any, Any, Any], tuple[events.Event, ...]] | None
    other: Any = field(default=None)


class Tape:
    """All steps of a fit in order; in the replay they are compared and answered from the record."""

    def __init__(self, order: Sequence[int] | None = None) -> None:
        self.steps: list[_Step] = []
        self.coarse: tuple[str, ...] = ()
        self._order = order
        # The releases; the first entry stands for steps outside of any release.
        self._plan: list[tuple[str, events.Event | None]] = [("", None)]
        self._at = -1  # recording
        self._release = self._count = 0
        self._inside = self._picking = False
        self._folds: set[str] = set()
        self.asked: list[events.Event] = []
        """What the releases would spend if each moved by all of its sensitivity; of folds, one."""

    def rewind(self) -> None:
        """Switch from recording to replaying."""
        self._at = self._release = self._count = 0

    @property
    def left(self) -> int:
        return len(self.steps) - self._at

    def early(self) -> tuple[str, ...]:
        """Releases before the first charge, if there is one."""
        charges = [k for k, step in enumerate(self.steps) if step.kind == "charge"]
        early = self.steps[: charges[0]] if charges else []
        return tuple(dict.fromkeys(self._plan[step.release][0] for step in early if step.cost))

    def charged(self) -> tuple[events.Event, ...]:
        """What was charged, empty without an account."""
        return tuple(event for step in self.steps if step.kind == "charge" for event in step.public)

    def spendings(self) -> tuple[Spending, ...]:
        spent: list[list[events.Event]] = [[] for _ in self._plan]
        for step in self.steps:
            if step.cost is not None and step.other is not None:
                spent[step.release] += step.cost(step.private, step.other, step.output)
        found = []
        for (name, charged), each in zip(self._plan, spent, strict=True):
            if isinstance(charged, events.SubsampledGaussianEvent):
                each = [
                    events.SubsampledGaussianEvent(e.noise_multiplier, charged.rate)
                    for e in each
                    if isinstance(e, events.GaussianEvent)
                ]
            found.append(Spending(name, tuple(each), charged))
        return tuple(found)

    def step(self, kind: str, public: Any, private: Any, sample: Callable[[], Any], cost: Any = None) -> Any:
        """Carry out a step and record it; or compare it, and answer from the record."""
        if self._inside:  # within a step that is recorded as a whole
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
            raise Diverged(f"{kind} after the end of the record")
        step = self.steps[self._at]
        if (step.kind, step.public) != (kind, public):
            raise Diverged(f"step {self._at} is {kind} {public}, and was {step.kind} {step.public}")
        self._at += 1
        step.other = private
        return copy.deepcopy(step.output)

    def _planned(self, mechanism: Mechanism, one: events.Event) -> None:
        self._plan.append((mechanism.name, one))
        if mechanism.name not in self._folds:
            self.asked.append(one)
        if mechanism.folds:
            self._folds.add(mechanism.name)

    @contextlib.contextmanager
    def taps(self) -> Iterator[None]:
        """Intercept all sources of randomness, all charges and all releases."""
        import opendp.core

        invoke, system, release, waive, peel, laplace, gaussian = (
            opendp.core.measurement_invoke, os.urandom, Curator.release, Curator.waive, LaplacePeeling.sample,
            discrete_laplace, discrete_gaussian,
        )  # fmt: skip

        def tapped_invoke(measurement: Any, value: Any) -> Any:
            noise = Noise(measurement)
            return self.step(
                noise.kind, (noise, np.shape(value)), np.array(value), lambda: invoke(measurement, value), noise.cost
            )

        def tapped_laplace(draw: Any, value: Any, scale: float) -> Any:
            noise = LaplaceCost(scale, self._picking)
            return self.step("Laplace", (noise, np.shape(value)), np.array(value), lambda: laplace(draw, value, scale), noise)

        def tapped_gaussian(draw: Any, value: Any, scale: float) -> Any:
            noise = GaussianCost(scale)
            return self.step("Gaussian", (noise, np.shape(value)), np.array(value), lambda: gaussian(draw, value, scale), noise)

        def tapped_system(size: int) -> Any:
            return self.step("bytes", size, None, lambda: system(size)) if _is_ours(sys._getframe(1)) else system(size)

        def tapped_rows(source: Any, rate: float, size: int) -> Any:
            # The sample is all rows, so that the changed row is in it. The charge accounts for the rate.
            return self.step("rows", (rate, size), None, lambda: np.ones(size, dtype=np.bool_))

        def tapped_release(curator: Curator, mechanism: Mechanism, bounded: Any) -> Any:
            one = replace(mechanism, share=curator.rho(mechanism), count=1, folds=False, parts=1).event(1.0)
            self.step("release", (mechanism, one), None, lambda: self._planned(mechanism, one))
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
            mock.patch.object(noise_module, "discrete_laplace", tapped_laplace),
            mock.patch.object(noise_module, "discrete_gaussian", tapped_gaussian),
            mock.patch.object(Curator, "release", tapped_release),
            mock.patch.object(Curator, "waive", tapped_waive),
            mock.patch.object(LaplacePeeling, "sample", tapped_peel),
            mock.patch.object(NamesAboveThreshold, "sample", self._names(NamesAboveThreshold.sample)),
        ]
        accounts = [cls for cls in vars(ledger).values() if isinstance(cls, type) and "charge" in vars(cls)]
        patches += [mock.patch.object(cls, "charge", self._charging(vars(cls)["charge"])) for cls in accounts]
        patches += [mock.patch.object(m, "charge_all", self._charging(charge_all)) for m in (curator_module, advance_module)]
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

    def _names(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """Which names get noise is private, so a release of names is recorded as a whole."""

        def tapped(mechanism: Any, source: Any, bounded: Any, rho: float) -> Any:
            cost = NamesCost.of(lambda draws, counts: sample(mechanism, draws, counts, rho), bounded)
            counts = dict(zip(bounded._names, bounded._value.tolist(), strict=True))
            return self.step("names", (mechanism, cost), counts, lambda: sample(mechanism, source, bounded, rho), cost)

        return tapped

    def _smooth(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """Noise of a private scale is not one OpenDP measurement, so it is recorded as a whole."""

        def tapped(mechanism: Any, source: Any, bounded: Any, rho: float) -> Any:
            if self._inside:
                return sample(mechanism, source, bounded, rho)

            def at(z: float) -> Any:
                draws = SimpleNamespace(smooth=lambda value, scale, width: value + scale * sinh_map(z, width))
                return sample(mechanism, draws, bounded, rho)

            noise, many = SinhNormal.of(at), -(-100 // bounded.size)
            if self._at < 0 and not self.coarse:
                self._inside = True
                outputs = np.array([np.ravel(sample(mechanism, source, bounded, rho)) for _ in range(many)])
                self._inside = False
                self.coarse = (mechanism.name,) if noise.lattice(outputs) else ()
            one = replace(mechanism, share=rho, count=1, folds=False, parts=1).event(1.0)
            public = (mechanism, one, np.shape(bounded._value))
            return self.step("smooth noise", public, noise, lambda: sample(mechanism, source, bounded, rho), SmoothCost(one))

        return tapped


# These modules use random bytes for file names.
_LEDGERS = ("fattail.privacy.budget", "fattail.privacy.chain", "fattail.privacy.witness")


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the library requests bytes for its noise, and not a ledger, a compiler or a cluster for names."""
    while frame is not None and frame.f_globals.get("__name__") in ("random", "secrets"):
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return name.startswith("fattail.") and name not in _LEDGERS
