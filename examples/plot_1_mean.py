"""
A mean of insurance losses
==========================

Danish fire losses are the textbook heavy tail: the largest is about eighty times the mean, and the
variance may not exist. A private mean by the book needs a bound on the losses. Here is what
happens if it is guessed, and what happens without one.
"""

import matplotlib.pyplot as plt
import numpy as np

import fattail
from _data import columns
from fattail.results import plots

losses, source = columns("danish_fire.csv.gz", ["Total"], lambda rng: 1 + rng.pareto(1.6, (2167, 1)))
losses = losses[:, 0]
print(f"{len(losses)} rows from {source}")

# %%
# One call. The noise is secure, so the numbers on this page change a little with every build.

release = fattail.mean(losses, epsilon=1.0, delta=1e-6)
print(f"private {release.value:.2f}, interval {np.round(release.interval, 2)}; not private {losses.mean():.2f}")
print(release.privacy)

# %%
# Clipping to [0, a guessed bound] and adding Laplace noise works only near the right guess, and finding that guess requires the
# answer. The repetitions below use seeded noise, as an experiment may; published, they would spend the budget many times over.

rng = np.random.default_rng(0)
bounds = 10.0 ** np.linspace(0, 5, 21)
clipped = np.array([np.minimum(losses, b).mean() for b in bounds])
guessed = np.abs(clipped + rng.laplace(scale=bounds / len(losses), size=(50, len(bounds))) - losses.mean()) / losses.mean()
ours = [abs(fattail.mean(losses, epsilon=1.0, delta=1e-6, random_state=seed).value / losses.mean() - 1) for seed in range(50)]

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.plot(bounds, np.median(guessed, axis=0), "o-", color=plots.COLORS[1], markersize=4, label="clipped at a guess")
ax.axhline(np.median(ours), color=plots.COLORS[0], linewidth=2.5, label="fattail, no guess")
ax.set(xscale="log", yscale="log", xlabel="guessed bound", ylabel="median relative distance to the sample mean")
ax.legend(frameon=False)
plt.show()

# %%
# The price of privacy on these rows, over epsilon.

epsilons = [0.25, 0.5, 1, 2, 4]
errors = [
    [abs(fattail.mean(losses, epsilon=e, delta=1e-6, random_state=s).value / losses.mean() - 1) for s in range(20)]
    for e in epsilons
]
plots.price_of_privacy(epsilons, {"fattail.mean": errors}, ylabel="relative distance to the sample mean")
plt.show()
