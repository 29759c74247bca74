"""``fattail methods``, ``audit`` and ``doctor``: list methods, attack one, and test the installation."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import fattail
from fattail import catalog
from fattail.cli.shared import AsJson, Delta, Epsilon, UsageError, emit, err, out
from fattail.privacy.selftest import self_test

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "opendp", "pandas", "pyarrow", "dask")


def methods(
    estimator: Annotated[str | None, typer.Option("--estimator", help="Only those of one estimator, e.g. DPMean.")] = None,
    json: AsJson = False,
) -> None:
    """List every method: its source, and what differs from it."""
    found = [m for m in fattail.registry() if estimator is None or estimator in m.estimators]
    if not found:
        raise UsageError(f"no estimator {estimator!r}; `fattail methods` lists all")
    if json:
        emit({"methods": [vars(m) for m in found]})
        return
    table = Table("method", "of", "from", "what differs from print", show_lines=True)
    for m in found:
        table.add_row(m.name, "\n".join(m.estimators), f"{m.paper}\n{m.algorithm}", m.changed)
    out.print(table)


def audit(
    method: Annotated[str, typer.Argument(help="A method, see `fattail methods`.")],
    estimator: Annotated[str | None, typer.Option("--estimator", help="Default: all that offer the method.")] = None,
    trials: Annotated[int, typer.Option("--trials", help="Hostile replacements of one row.")] = 20,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    json: AsJson = False,
) -> None:
    """Attack a method: replace a row by hostile ones and compare the observed changes with the declared sensitivities.

    The data are made up. A ratio above 1 would refute the proof; the command then fails.
    """
    found = {e for m in fattail.registry() if m.name == method for e in m.estimators}
    targets = sorted(found if estimator is None else found & {estimator})
    if not targets:
        raise UsageError(f"no method {method!r}" + (f" of {estimator}" if estimator else "") + "; see `fattail methods`")
    worst: dict[str, float] = {}
    for name in targets:
        entry = catalog.entry(name)
        arrays = made_up(entry, np.random.default_rng(0))
        with err.status(f"attacking {name}(method={method!r}) ..."):
            worst[name] = fattail.audit.fuzz(_fitter(entry, method, epsilon, delta), arrays, trials=trials)
    failed = [name for name, ratio in worst.items() if not ratio <= 1]
    if json:
        emit({"method": method, "trials": trials, "worst_ratio": worst, "passed": not failed})
    else:
        for name, ratio in worst.items():
            verdict = "REFUTED" if name in failed else "holds"
            out.print(f"{name}(method={method!r}): one row moved a release by {ratio:.4f} of what was declared: {verdict}")
    if failed:
        raise typer.Exit(1)


def doctor(json: AsJson = False) -> None:
    """Versions, cores, and a goodness-of-fit test of the noise (a false alarm about once in a million runs)."""
    facts: dict[str, Any] = {"fattail": fattail.__version__, "python": platform.python_version(), "system": platform.platform()}
    facts |= {name: _version(name) for name in _PACKAGES}
    facts |= {"cores": os.cpu_count(), "threads": os.environ.get("FATTAIL_NUM_THREADS", "all cores")}
    checks = self_test()
    healthy = all(check.ok for check in checks)
    facts |= {f"noise: {c.name}": f"{'passed' if c.ok else 'FAILED'} (p = {c.p_value:.2g})" for c in checks}
    if json:
        emit(facts | {"healthy": healthy})
    else:
        table = Table("", "")
        for name, value in facts.items():
            table.add_row(name, str(value))
        out.print(table)
    if not healthy:
        raise typer.Exit(1)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _fitter(entry: catalog.Entry, method: str, epsilon: float, delta: float) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        # Seeded, so that both runs of a replay draw the same noise. Few rows, because accuracy does not matter.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fattail.UtilityWarning)
            cls = catalog.load(entry.name)
            return cls(epsilon=epsilon, delta=delta, method=method, random_state=0, **entry.example).fit(*arrays)

    return run


def made_up(entry: catalog.Entry, rng: np.random.Generator) -> tuple[Any, ...]:
    """A small table with heavy tails that an estimator can fit: rows, and a target if it needs one."""
    X = rng.standard_t(3, (300, 4))
    y = X @ np.ones(4) + rng.standard_t(2.1, 300)
    if entry.family == "sparse":
        X = np.hstack([X, rng.standard_t(3, (len(X), 16))])
    return {"none": (X,), "numbers": (X, y), "labels": (X, (y > 0).astype(float))}[entry.target]
