"""
Household wealth, in dollars
============================

Net financial assets of 9,915 households, on age, income and a few flags. The response takes both signs and
has a tail index of about 1.8; the columns are in dollars, years and zeros and ones. Nothing is scaled.
"""

import matplotlib.pyplot as plt
import numpy as np

import fattail
from _data import columns
from fattail.results import plots

names = ["age", "inc", "fsize", "educ", "marr", "twoearn", "db", "pira", "hown", "e401"]


def made_up(rng):
    X = np.column_stack(
        [
            rng.uniform(25, 64, 9915),
            np.exp(rng.normal(10.3, 0.6, 9915)),
            rng.integers(1, 7, 9915),
            rng.integers(8, 18, 9915),
            *(rng.random((6, 9915)) < 0.4),
        ]
    )
    y = X @ [300, 0.3, -800, 100, 500, -2000, 500, 15000, 3000, 4000] - 20000 + 8000 * rng.standard_t(1.8, 9915)
    return np.column_stack([X, y])


table, source = columns("pension401k.csv.gz", [*names, "net_tfa"], made_up)
X, y = table[:, :-1], table[:, -1]
print(f"{X.shape[0]} rows, {X.shape[1]} columns from {source}")

# %%
# The Huber loss describes the typical household: errors above 10,000 dollars, a public choice, count linearly.

model = fattail.DPHuberRegressor(threshold=10_000, epsilon=1.0, delta=1e-6).fit(X, y)
print(model.privacy_)

# %%
# Beside the same loss without privacy, per standard deviation of each column (for the picture only).


def huber(X, y, threshold):
    """The same loss without privacy, by reweighted least squares."""
    Z, weights = np.column_stack([X, np.ones(len(y))]), np.ones(len(y))
    for _ in range(100):
        w = np.linalg.lstsq(Z * np.sqrt(weights)[:, None], y * np.sqrt(weights), rcond=None)[0]
        weights = np.minimum(1.0, threshold / np.maximum(np.abs(y - Z @ w), 1e-9))
    return w


scale, plain = X.std(axis=0), huber(X, y, 10_000)
at = np.arange(len(names))
fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.barh(at - 0.2, plain[:-1] * scale, 0.38, color=plots.COLORS[5], label="not private")
ax.barh(at + 0.2, model.coef_ * scale, 0.38, color=plots.COLORS[0], label="epsilon 1")
ax.set_yticks(at, names)
ax.invert_yaxis()
ax.set(xlabel="dollars per standard deviation of the column")
ax.legend(frameon=False)
plt.show()

# %%
# How far the private coefficients are from those without privacy, over epsilon. These distances are *not* releases; they
# are shown because the rows are public.

epsilons = [0.25, 0.5, 1, 2, 4]
reference = plain[:-1] * scale
errors = [
    [
        np.linalg.norm(fattail.DPHuberRegressor(threshold=10_000, epsilon=e, random_state=s).fit(X, y).coef_ * scale - reference)
        / np.linalg.norm(reference)
        for s in range(8)
    ]
    for e in epsilons
]
plots.price_of_privacy(epsilons, {"DPHuberRegressor": errors}, ylabel="relative distance to the fit without privacy")
plt.show()
