"""Calibrated noise against dp-accounting's privacy loss distributions.

    python benchmarks/accounting.py

Writes benchmarks/results/accounting.csv. For each plan: our noise multiplier, the epsilon
that dp-accounting finds for it (optimistic and pessimistic discretization), the smallest
multiplier that dp-accounting would accept (bisection on the optimistic estimate, so a lower
limit to what is possible), the excess of ours over it, and the time of our calibration.

The mixed plan is 20 Gumbel selections of the top 10 and 20 Gaussian releases, sharing the
concentrated-DP budget equally. A selection of range eta contains randomized response at
eta / 2, which is what its row composes: no sound accountant can go below that.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from dp_accounting.pld import privacy_loss_distribution as pld

from fattail.privacy import Gaussian, TopK
from fattail.privacy.calibration import largest_rho
from result_files import write_csv

BUDGETS = [(0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-8)]
RESULTS = Path(__file__).parent / "results" / "accounting.csv"


def gaussians(count: int) -> tuple[tuple, str]:
    return (Gaussian("releases", count=count),), f"{count} Gaussian"


def mixed() -> tuple[tuple, str]:
    return (Gaussian("releases", 1.0, count=20), TopK("selections", 1.0, count=20, k=10)), "20 Gaussian + 20 top-10"


def pld_epsilon(plan: tuple, unit: float, delta: float, pessimistic: bool, epsilon: float) -> float:
    grid = epsilon * 1e-4
    steps = [math.sqrt(8 * m.rho(unit) / m.k) / 2 for m in plan if isinstance(m, TopK)]
    if steps:  # a grid on which the losses of randomized response are exact
        grid = steps[0] / math.ceil(steps[0] / grid)
    total = None
    for mechanism in plan:
        if isinstance(mechanism, TopK):
            one = pld.from_randomized_response(
                2 / (1 + math.exp(steps[0])), 2, pessimistic_estimate=pessimistic, value_discretization_interval=grid
            ).self_compose(mechanism.count * mechanism.k)
        else:
            # k Gaussian releases are one Gaussian; composing on the grid would only add its rounding.
            sigma = 1 / math.sqrt(2 * mechanism.rho(unit) * mechanism.count)
            one = pld.from_gaussian_mechanism(
                sigma, pessimistic_estimate=pessimistic, value_discretization_interval=grid, use_connect_dots=pessimistic
            )
        total = one if total is None else total.compose(one)
    return float(total.get_epsilon_for_delta(delta))


def main() -> None:
    rows = []
    for epsilon, delta in BUDGETS:
        for plan, label in [gaussians(1), gaussians(50), gaussians(1000), mixed()]:
            events = lambda unit, plan=plan: [m.event(unit) for m in plan]  # noqa: E731
            start = time.perf_counter()
            unit = largest_rho(events, epsilon, delta)
            seconds = time.perf_counter() - start
            low, high = unit, 2 * unit
            for _ in range(12):
                mid = math.sqrt(low * high)
                low, high = (mid, high) if pld_epsilon(plan, mid, delta, False, epsilon) <= epsilon else (low, mid)
            row = {
                "plan": label,
                "epsilon": epsilon,
                "delta": delta,
                "noise_multiplier": 1 / math.sqrt(2 * plan[0].rho(unit)),
                "pld_epsilon_pessimistic": pld_epsilon(plan, unit, delta, True, epsilon),
                "pld_epsilon_optimistic": pld_epsilon(plan, unit, delta, False, epsilon),
                "excess_noise_percent": 100 * (math.sqrt(low / unit) - 1),
                "calibration_ms": 1e3 * seconds,
            }
            rows.append(row)
            print({k: round(v, 5) if isinstance(v, float) and v > 1e-3 else v for k, v in row.items()}, flush=True)
    write_csv(RESULTS, rows, digits=None)


if __name__ == "__main__":
    main()
