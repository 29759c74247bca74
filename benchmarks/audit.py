"""Attack every method of the registry through its public estimator.

    python benchmarks/audit.py [--quick] [--seconds S] [--only NAME ...]

For each method and each nominal epsilon: the pair of neighbours that moves its releases most
(``audit_cases.py``), many fits on each, and the likelihood ratio of everything released as the
distinguisher. From its error rates on runs that had no part in choosing its threshold follow

* ``lower_bound``: on epsilon at delta = 1e-5, valid for any mechanism (Clopper-Pearson);
* ``lower_bound_gaussian``: the same where all releases are Gaussian, which makes it far tighter;
* ``refuted``: whether the rates contradict the claimed events at *any* epsilon, for any mechanism.

The confidence is 95 % for all rows as shipped together, and 95 % for each mutant with half the
noise, which should be refuted. Writes benchmarks/results/audit.csv, docs/audit.md and
docs/audit.png; with the default of 14 seconds a row it takes 40 minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import fattail
from audit_cases import DELTA, Case, cases, fitted, worst_pair
from fattail import audit
from fattail.privacy import events

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "audit.csv"
PAGE = HERE.parent / "docs" / "audit.md"
EPSILONS = (0.5, 1.0, 4.0)
LINEAR = ("DPLinearRegression", "DPHuberRegressor", "DPLogisticRegression")


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
        """Epsilon at which neighbours are chosen: where private units are found best, unless a bound depends on it."""
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


def attack(job: Job) -> dict[str, object]:
    case, epsilon, factor = cases()[job.case], job.epsilon, job.factor
    start, (chosen, used) = time.perf_counter(), search(job.case, job.searched_at)
    pair = case.pairs[chosen]
    fitted(case, epsilon, 0, *pair[0])
    began = time.process_time()
    for seed in range(3):
        report = fitted(case, epsilon, seed, *pair[0]).privacy_
    fit_time = (time.process_time() - began) / 3
    # A run is a fit and its replay, on either dataset. Mutants of what is hard to move need more.
    wanted = job.seconds * (3 if factor < 1 and 0.5 < used < 0.9 else 1)
    runs = int(np.clip(wanted / (4 * fit_time), 60 if factor == 1 else 300, 4000))
    with warnings.catch_warnings(), audit.weakened(factor):
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        bound = audit.transcript_attack(
            lambda seed: case.make(seed, epsilon), *pair, runs=runs, delta=DELTA, confidence=job.confidence
        )
    gaussian = all(isinstance(event, events.Gaussian) for event in report.events)
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
        "seconds": round(time.perf_counter() - start, 1),
    }


def _short(value: object) -> str:
    return "e1" if isinstance(value, np.ndarray) else f"{value:g}" if isinstance(value, float) else str(value)


def read() -> list[dict[str, str]]:
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def best_bound(row: dict[str, str]) -> float:
    """The Gaussian bound where it is valid, else the one for any mechanism."""
    return float(row["lower_bound_gaussian"] or row["lower_bound"])


def page(rows: list[dict[str, str]]) -> str:
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
        mutant = "caught" if seen else "not caught" if of(mutants, key) else "not run"
        lines.append(f"| `{key[0]}` | `{key[1]}` | {numbers} | {float(first['budget_used']):.2f} | {mutant} | {note} |")
    refuted = sum(r["refuted"] == "True" for r in shipped)
    runs = [int(r["runs"]) for r in rows]
    tried = sum(bool(of(mutants, key)) for key in keys)
    return f"""# Attacks on every method

<!-- Written by benchmarks/audit.py from benchmarks/results/audit.csv; do not edit. -->

Each method of the registry is fitted again and again on two datasets that differ in one row, built so that
this row moves its releases as far as it can. An onlooker who knows both datasets and sees every release tries
to tell which was used. How well that works gives a lower bound on epsilon; it must not exceed the claim. The
same attack on a mutant with half the noise must succeed.

Claims refuted: **{refuted} of {len(shipped)}**. Mutants caught: **{caught} of {tried}**. All bounds together
hold with 95 % confidence, each mutant is caught with 95 %, delta is {DELTA:g}, and there are {min(runs)} to
{max(runs)} fits per dataset and row.
*Budget used* says how far the row moves the releases, 1 being all that the noise is calibrated for; where it is
less, the last column says why. A mutant can only be caught where it exceeds one half.

![Lower bounds against the claim](audit.png)

| estimator | `method=` | bound at 0.5 | at 1 | at 4 | budget used | half the noise | what stays unused |
|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

† valid for any mechanism, and therefore loose: from error rates and delta alone. Without the mark all releases
are Gaussian, and the bound uses that. A claim is refuted, and a mutant caught, when the error rates contradict
the claimed releases at any epsilon, which needs no such assumption.

Again with `make audit`; how it works is in {{mod}}`fattail.audit`.
"""


def plot(rows: list[dict[str, str]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5))
    for marker, factor, label in (("o", "1.0", "as shipped"), ("x", "0.5", "mutants with half the noise")):
        chosen = [r for r in rows if r["noise_factor"] == factor and r["lower_bound_gaussian"]]
        jitter = np.random.default_rng(0).uniform(0.9, 1.1, len(chosen))
        axis.scatter(
            [float(r["epsilon"]) * j for r, j in zip(chosen, jitter, strict=True)],
            [max(best_bound(r), 0.02) for r in chosen],
            marker=marker,
            label=label,
            alpha=0.7,
        )
    line = np.geomspace(0.3, 6.0)
    axis.plot(line, line, "k--", label="claim")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="nominal epsilon",
        ylabel="lower bound on epsilon",
        title="Attacks on methods with Gaussian noise: lower bounds against the claim",
    )
    axis.legend()
    figure.savefig(PAGE.with_suffix(".png"), dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="epsilon 4 only, nothing written")
    parser.add_argument("--seconds", type=float, default=14.0, help="processor time for each row")
    parser.add_argument("--small", type=float, default=1.0, help="time for a row at small epsilon, relative to the others")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names; nothing is written")
    parser.add_argument("--page", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(read()))
        plot(read())
        return
    found = cases()
    chosen = [k for k, c in enumerate(found) if not options.only or any(o in c.name for o in options.only)]
    confidence = 1 - 0.05 / (len(EPSILONS) * len(found))
    # What tells most comes first: a large epsilon, then the mutants, quick ones before slow ones.
    jobs = [Job(k, 4.0, 1.0, options.seconds, confidence) for k in chosen]
    quick = sorted(
        chosen, key=lambda k: (found[k].method == "auto", "Sparse" not in found[k].estimator, found[k].estimator in LINEAR)
    )
    jobs += [Job(k, mutant_epsilon(found[k]), 0.5, options.seconds, 0.95) for k in quick]
    if not options.quick:
        jobs += [Job(k, eps, 1.0, options.seconds * options.small, confidence) for eps in (1.0, 0.5) for k in chosen]
    whole = not (options.quick or options.only)
    rows = [r for r in read() if options.resume] if whole else []
    there = {(r["estimator"], r["method"], r["options"], r["epsilon"], r["noise_factor"]) for r in rows}
    jobs = [job for job in jobs if job.key not in there]
    with ProcessPoolExecutor(2) as pool:
        results = pool.map(attack, jobs)
        for k, row in enumerate(results):
            rows.append({name: str(value) for name, value in row.items()})
            print(f"{k + 1}/{len(jobs)}", *row.values(), flush=True)
            if whole:
                write(rows)
    if whole:
        PAGE.write_text(page(read()))
        plot(read())
    broken = [r for r in rows if r["noise_factor"] == "1.0" and r["refuted"] == "True"]
    raise SystemExit(f"claims refuted: {broken}" if broken else 0)


def write(rows: Iterable[dict[str, str]]) -> None:
    """All rows so far, in the order of the cases: an interrupted run resumes."""
    order = {(c.estimator, c.method, described(c)): k for k, c in enumerate(cases())}
    rows = sorted(
        rows, key=lambda r: (order[r["estimator"], r["method"], r["options"]], -float(r["noise_factor"]), float(r["epsilon"]))
    )
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def mutant_epsilon(case: Case) -> float:
    """A pure plan shows its noise best at a small epsilon, a Gaussian one at a large."""
    return 1.0 if case.estimator == "DPMean" or case.method == "frank_wolfe" else 4.0


if __name__ == "__main__":
    main()
