"""Which share of epsilon a private number of rows should get.

    python benchmarks/tuning/counts.py [--trials 60]

Prints the error of the default mean under add-remove over that under replace-one, for several shares. The laws are not those of
benchmarks/persons.py. `fattail.privacy.counting.SHARES` was chosen from this.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace

import numpy as np

from fattail import DPMean
from fattail.privacy import counting

LAWS = {
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0),
    "log-normal(1.3)": (lambda rng, n: rng.lognormal(0.0, 1.3, n), float(np.exp(1.3**2 / 2))),
    "t(3)": (lambda rng, n: rng.standard_t(3, n), 0.0),
}


def error(law: str, n: int, trials: int, **options: str) -> float:
    draw, truth = LAWS[law]
    fits = (DPMean(random_state=s, **options).fit(draw(np.random.default_rng(s), n)[:, None]) for s in range(trials))
    return float(np.sqrt(np.mean([(float(fit.mean_[0]) - truth) ** 2 for fit in fits])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=60)
    trials = parser.parse_args().trials
    warnings.simplefilter("ignore")
    chosen = counting.SHARES
    for law in LAWS:
        for n in (1_000, 10_000):
            base, ratios = error(law, n, trials), {}
            for share in (0.02, 0.04, 0.06, 0.09):
                counting.SHARES = replace(chosen, count=share)
                ratios[share] = round(error(law, n, trials, relation="add-remove") / base, 3)
            print(law, n, ratios, flush=True)


if __name__ == "__main__":
    main()
