"""
Two lines in one cloud
======================

Half of the rows follow one line and half its mirror image, and nobody recorded which. EM finds the line; here each
of its steps is private. The iterates are releases, so they may be looked at.
"""

import matplotlib.pyplot as plt
import numpy as np

import fattail
from fattail.results import plots

rng = np.random.default_rng(0)
n, beta = 20_000, np.array([1.0, -0.5, 0.5])
X = rng.standard_normal((n, 3))
side = rng.choice([-1.0, 1.0], n)
y = side * (X @ beta) + 0.3 * rng.standard_normal(n)

model = fattail.DPMixtureOfRegressions(epsilon=1.0, delta=1e-6).fit(X, y)
sign = np.sign(model.coef_ @ beta)  # which of the two lines comes first is arbitrary
print("private", np.round(sign * model.coef_, 3), "truth", beta)

# %%
# Convergence of the methods, measured against the truth, which only an experiment knows.

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for method in ("auto", "smoothed", "clipped"):
    path = fattail.DPMixtureOfRegressions(epsilon=1.0, method=method, random_state=0).fit(X, y).path_
    plots.convergence(path * np.sign(path[-1] @ beta), target=beta, label=method, ax=ax)
plt.show()
