"""Attack every mechanism through the curator, and every method of the registry through its public estimator.

    python benchmarks/audit.py [--quick] [--seconds S] [--mutant-seconds S] [--workers W] [--only NAME ...]

For each method and each nominal epsilon: the pair of neighbors that moves its releases most
(``audit_cases.py``), many fits on each, and the likelihood ratio of everything released as the
distinguisher. From its error rates on runs that had no part in choosing its threshold follow

* ``lower_bound``: on epsilon at delta = 1e-5, valid for any mechanism (Clopper-Pearson);
* ``lower_bound_gaussian``: the same where all releases are Gaussian, which makes it far tighter;
* ``refuted``: whether the rates contradict the claimed events at *any* epsilon, for any mechanism.

The confidence is 95 % for all rows as shipped together, and 95 % for each mutant with half the
noise, which should be refuted; a mutant gets as many fits as its neighbors need to show it. Writes
benchmarks/results/audit.csv and audit_mechanisms.csv, docs/audit.md and docs/audit.png; with the default
of 12 seconds a row it takes about half an hour of two free cores.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

import fattail
import pictures
from audit_cases import DELTA, Case, cases, fitted, worst_pair
from audit_mechanisms import mechanisms
from fattail import audit
from fattail.privacy import events
from result_files import write_csv

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "audit.csv"
MECHANISMS = HERE / "results" / "audit_mechanisms.csv"
PAGE = HERE.parent / "docs" / "audit.md"
EPSILONS = (0.5, 1.0, 4.0)
MOST_RUNS = 4000
# What mutants of one pure release need, whose losses are far from Gaussian, by simulation; several need twice as many.
PURE_RUNS = 700


@dataclass(frozen=True)
class Job:
    """One row of the table."""

    case: int
    epsilon: float
    factor: float
    seconds: float
    confidence: float

    @property
    def searched_at(self) -> float:
        """Epsilon at which neighbors are chosen: where private units are found best, unless a bound depends on it."""
        return self.epsilon if cases()[self.case].name == "DPMean-median_of_means" else 4.0

    @property
    def key(self) -> tuple[str, ...]:
        case = cases()[self.case]
        return case.estimator, case.method, described(case), str(self.epsilon), str(self.factor)


def described(case: Case) -> str:
    return " ".join(f"{k}={_short(v)}" for k, v in case.options.items())


@cache
def search(index: int, epsilon: float) -> tuple[int, float]:
    return worst_pair(cases()[index], epsilon, seeds=2)


def attack_all(jobs: list[Job]) -> list[dict[str, str]]:
    return [{name: str(value) for name, value in attack(job).items()} for job in jobs]


def attack(job: Job) -> dict[str, object]:
    case, epsilon, factor = cases()[job.case], job.epsilon, job.factor
    start, (chosen, used) = time.perf_counter(), search(job.case, job.searched_at)
    pair = case.pairs[chosen]
    claim = fitted(case, epsilon, 0, *pair[0]).privacy_.events  # compiles and calibrates, before the clock runs
    began = time.process_time()
    steps = audit.replay(lambda *data: fitted(case, epsilon, 0, *data), *pair)
    run_time = 2 * (time.process_time() - began)  # a run is a fit and its replay, on either dataset
    runs = int(np.clip(job.seconds / run_time, 40 if factor == 1 else 300, MOST_RUNS))
    mu = used * math.sqrt(2 * sum(step.rho for step in steps))
    if factor < 1:
        runs = min(runs, needed_runs(claim, mu / factor))
    with warnings.catch_warnings(), audit.weakened(factor):
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        bound = audit.transcript_attack(
            lambda seed: case.make(seed, epsilon), *pair, runs=runs, delta=DELTA, confidence=job.confidence
        )
    gaussian = all(isinstance(event, events.GaussianEvent) for event in claim)
    return {
        "estimator": case.estimator,
        "method": case.method,
        "options": described(case),
        "epsilon": epsilon,
        "delta": DELTA,
        "noise_factor": factor,
        "runs": runs,
        "budget_used": round(used, 3),
        "lower_bound": round(bound.epsilon, 3),
        "lower_bound_gaussian": round(bound.gaussian_epsilon, 3) if gaussian else "",
        "refuted": bound.refutes or bound.epsilon > epsilon,
        "shown": shown_factor(claim, mu, runs) if factor < 1 else "",
        "seconds": round(time.perf_counter() - start, 1),
    }


def needed_runs(claim: Sequence[events.Event], mu: float) -> int:
    """Fits per dataset that show a mutant whose losses are about those of a mu-Gaussian release."""
    if not any(isinstance(event, events.GaussianEvent | events.ZeroConcentrated) for event in claim):
        return PURE_RUNS * min(len(claim), 2)
    selected = any(isinstance(event, events.BoundedRange) for event in claim)  # a loss of few values, far from Gaussian
    return enough_runs(claim, mu) * (2 if selected else 1)


def enough_runs(claim: Sequence[events.Event], mu: float, most: int = MOST_RUNS) -> int:
    """Fits per dataset with which losses like those of a mu-Gaussian release refute a claim, bad luck included."""
    allowed = audit.tradeoff(claim)
    cut = np.linspace(-3.0, mu + 3.0, 80)
    rates = np.stack([stats.norm.sf(cut), stats.norm.cdf(cut - mu)])
    for runs in np.geomspace(150, most, 16).astype(int):
        tested = runs - runs // 3
        unlucky = np.minimum(rates + 1.5 * np.sqrt(rates * (1 - rates) / tested), 1 - 1e-9)
        limits = stats.beta.ppf(0.975, unlucky * tested + 1, (1 - unlucky) * tested)
        if max(allowed(alpha) - beta for alpha, beta in limits.T) > 0:
            return int(runs)
    return most + 1


def shown_factor(claim: Sequence[events.Event], mu: float, runs: int) -> float:
    """Largest part of the noise, in steps of a twentieth, at which so many fits would refute a claim."""
    factors = [k / 20 for k in range(19, 0, -1)]
    return next((f for f in factors if enough_runs(claim, mu / f) <= runs), 0.0)


def attack_mechanism(index: int, factor: float) -> dict[str, str]:
    found = mechanisms()
    attacked = found[index]
    with audit.weakened(factor):
        bound = attacked.attack(2 * attacked.runs, 1 - 0.05 / len(found) if factor == 1 else 0.95)
    return {
        "mechanism": attacked.name,
        "epsilon": str(attacked.epsilon),
        "delta": str(attacked.delta),
        "noise_factor": str(factor),
        "runs": str(2 * attacked.runs),
        "lower_bound": f"{bound.epsilon:.3f}",
        "refuted": str(bound.refutes),
    }


def _short(value: object) -> str:
    return "e1" if isinstance(value, np.ndarray) else f"{value:g}" if isinstance(value, float) else str(value)


def read(path: Path = RESULTS) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def save(rows: list[dict[str, str]], path: Path) -> None:
    write_csv(path, rows, digits=None)


def best_bound(row: dict[str, str]) -> float:
    """The Gaussian bound where it is valid, else the one for any mechanism."""
    return float(row["lower_bound_gaussian"] or row["lower_bound"])


def mechanism_lines(rows: list[dict[str, str]]) -> list[str]:
    lines = []
    for name in dict.fromkeys(r["mechanism"] for r in rows):
        shipped, mutant = (next(r for r in rows if (r["mechanism"], r["noise_factor"]) == (name, f)) for f in ("1.0", "0.5"))
        kind, _, note = name.partition(", ")
        claim = f"({float(shipped['epsilon']):g}, {float(shipped['delta']):g})"
        caught = "caught" if mutant["refuted"] == "True" else "not caught"
        kept = "refuted" if shipped["refuted"] == "True" else "kept"
        lines.append(
            f"| `{kind}`{', ' if note else ''}{note} | {claim} | {shipped['lower_bound']} | {kept} | {mutant['lower_bound']} "
            f"| {caught} | {shipped['runs']} |"
        )
    return lines


def page(rows: list[dict[str, str]], released: list[dict[str, str]]) -> str:
    """The documentation's page, from the results."""
    shipped = [r for r in rows if r["noise_factor"] == "1.0"]
    mutants = [r for r in rows if r["noise_factor"] != "1.0"]
    keys = list(dict.fromkeys((r["estimator"], r["method"], r["options"]) for r in rows))
    reasons = {(c.estimator, c.method, described(c)): c.why for c in cases()}

    def of(table: list[dict[str, str]], key: tuple[str, str, str]) -> list[dict[str, str]]:
        return [r for r in table if (r["estimator"], r["method"], r["options"]) == key]

    lines, caught = [], 0
    for key in keys:
        bounds = {r["epsilon"]: best_bound(r) for r in of(shipped, key)}
        seen = any(r["refuted"] == "True" for r in of(mutants, key))
        caught += seen
        first = of(rows, key)[0]
        mark = "" if first["lower_bound_gaussian"] else " †"
        numbers = " | ".join(f"{bounds[str(e)]:.2f}{mark}" if str(e) in bounds else "not run" for e in EPSILONS)
        note = "" if float(first["budget_used"]) > 0.95 else reasons.get(key, "")
        mutant = "caught" if seen else f"only below {of(mutants, key)[0]['shown']}" if of(mutants, key) else "not run"
        lines.append(f"| `{key[0]}` | `{key[1]}` | {numbers} | {float(first['budget_used']):.2f} | {mutant} | {note} |")
    refuted = sum(r["refuted"] == "True" for r in shipped)
    runs = [int(r["runs"]) for r in rows]
    tried = sum(bool(of(mutants, key)) for key in keys)
    singles = mechanism_lines(released)
    return f"""# Attacks on every mechanism and method

<!-- Written by benchmarks/audit.py from benchmarks/results/audit.csv; do not edit. -->

Each method of the registry is fitted again and again on two datasets that differ in one row, built so that
this row moves its releases as far as it can. An onlooker who knows both datasets and sees every release tries
to tell which was used. How well that works gives a lower bound on epsilon; it must not exceed the claim. The
same attack on a mutant with half the noise must succeed.

Claims refuted: **{refuted} of {len(shipped)}**. Mutants caught: **{caught} of {tried}** methods, and
**{sum("| caught |" in line for line in singles)} of {len(singles)}** mechanisms. All bounds together
hold with 95 % confidence, each mutant is caught with 95 %, delta is {DELTA:g}, and there are {min(runs)} to
{max(runs)} fits per dataset and row.

## Every mechanism

One release through the curator, of a value that one row moves by all of its sensitivity. The onlooker sees one number.
Claims are those at which half of the noise shows soonest.

| mechanism | claim | bound as shipped | claim is | bound at half the noise | which is | releases |
|---|---|---|---|---|---|---|
{chr(10).join(singles)}

## Every method

*Budget used* says how far the row moves the releases, 1 being all that the noise is calibrated for; where it is
less, the last column says why. A mutant with half of the noise can only be caught where it exceeds one half. Where it
was not, the table tells the part of the noise below which these neighbors and so many fits would show it.

![Lower bounds against the claim](audit.png)

| estimator | `method=` | bound at 0.5 | at 1 | at 4 | budget used | half the noise | what stays unused |
|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

† valid for any mechanism, and therefore loose: from error rates and delta alone. Without the mark all releases
are Gaussian, and the bound uses that. A claim is refuted, and a mutant caught, when the error rates contradict
the claimed releases at any epsilon, which needs no such assumption.

Again with `make audit`; how it works is in {{mod}}`fattail.audit`.
"""


def publish() -> None:
    PAGE.write_text(page(read(), read(MECHANISMS)))
    pictures.audit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="epsilon 4 and no mutants of methods; nothing is written")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--seconds", type=float, default=12.0, help="processor time for each row")
    parser.add_argument("--mutant-seconds", type=float, default=60.0, help="the same for each mutant, at most")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names; nothing is written")
    parser.add_argument("--page", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args()
    if options.page:
        publish()
        return
    found = cases()
    chosen = [k for k, c in enumerate(found) if not options.only or any(o in c.name for o in options.only)]
    confidence = 1 - 0.05 / (len(EPSILONS) * len(found))
    jobs = [Job(k, 4.0, 1.0, options.seconds, confidence) for k in chosen]
    if not options.quick:
        jobs += [Job(k, mutant_epsilon(found[k]), 0.5, options.mutant_seconds, 0.95) for k in chosen]
        jobs += [Job(k, eps, 1.0, options.seconds, confidence) for eps in (1.0, 0.5) for k in chosen]
    order = sorted(chosen, key=lambda k: found[k].method == "auto")  # what takes longest comes last
    whole = not (options.quick or options.only)
    rows = read() if whole and options.resume else []
    there = {(r["estimator"], r["method"], r["options"], r["epsilon"], r["noise_factor"]) for r in rows}
    jobs = [job for job in jobs if job.key not in there]
    with ProcessPoolExecutor(options.workers) as pool:
        if whole and not (options.resume and MECHANISMS.exists()):
            both = [(k, factor) for k in range(len(mechanisms())) for factor in (1.0, 0.5)]
            save(list(pool.map(attack_mechanism, *zip(*both, strict=True))), MECHANISMS)
        # The rows of a method go to one process, which searches its neighbors once.
        for found_rows in pool.map(attack_all, [[job for job in jobs if job.case == k] for k in order]):
            rows += found_rows
            for row in found_rows:
                print(*row.values(), flush=True)
            if whole:
                write(rows)
    if whole:
        publish()
    broken = [r for r in rows if r["noise_factor"] == "1.0" and r["refuted"] == "True"]
    raise SystemExit(f"claims refuted: {broken}" if broken else 0)


def write(rows: Iterable[dict[str, str]]) -> None:
    """All rows so far, in the order of the cases: an interrupted run resumes."""
    order = {(c.estimator, c.method, described(c)): k for k, c in enumerate(cases())}
    rows = sorted(
        rows, key=lambda r: (order[r["estimator"], r["method"], r["options"]], -float(r["noise_factor"]), float(r["epsilon"]))
    )
    save(rows, RESULTS)


def mutant_epsilon(case: Case) -> float:
    """A pure plan shows its noise best at a small epsilon, a Gaussian one at a large."""
    return 1.0 if case.estimator == "DPMean" or case.method == "frank_wolfe" else 4.0


if __name__ == "__main__":
    main()
