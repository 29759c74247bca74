"""Record a fit and replay it on a neighbor, without relying on anything that the library declares.

The first run is recorded at the samplers: the input and output of every OpenDP measurement and of every draw of noise,
and every other byte from the system's random source. The second run, on a neighbor, gets the same outputs and the same bytes.
Then

* the distance between the inputs of a sampler, put into *its own* privacy map (its scale), is what this pair of datasets spends
  there; it must not exceed the charge for the release;
* all releases together, each moving by all that its own budget allows, must exceed neither the claim nor the charge: no pair of
  neighbors moves them all, so a budget that is used twice would not show in what pairs spend;
* all that is visible of the fit (numbers, files, warnings, errors, logs, the sequence of releases)
  must be the same: both runs had the same noisy answers, so any difference came from a row.

`fattail.audit.replay` compares values with the sensitivities that the code declares; nothing here
reads a declared sensitivity. The idea is that of record-and-replay auditing (Re:cord-play, in
"Privacy in theory, bugs in practice").
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from fattail.audit.artifacts import artifacts, causes, plain_types
from fattail.audit.findings import Finding
from fattail.audit.tape import Diverged, Tape
from fattail.results.progress import watch


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
            escapes = ["error"]  # one of the runs has no results to compare
        if tape.left:
            diverged = f"it ends {tape.left} steps early"
    except Diverged as error:
        diverged = str(error)
    return Finding(
        tape.spendings(),
        tuple(escapes),
        diverged,
        tape.early(),
        tape.coarse,
        ours["claim"],
        tuple(tape.asked),
        tape.charged(),
        wasted(ours, tape),
    )


def wasted(seen: dict[str, Any], tape: Tape) -> str:
    """The error of a fit that raised after it was charged, empty if it did not."""
    return str(seen["error"][0]) if "error" in seen and tape.charged() else ""


def observed(fit: Callable[..., Any], data: tuple[Any, ...], tape: Tape) -> dict[str, Any]:
    """All that is visible of a fit outside of the curator."""
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
            watch(lambda p: told.append((p.name, p.done, p.total, plain_types(p.value)))),
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
