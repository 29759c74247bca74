"""
Few columns out of a thousand
=============================

Noise on a thousand coefficients would hide the few that matter. The sparse estimators choose
columns privately and release only those.
"""

import matplotlib.pyplot as plt
import numpy as np

import fattail
from fattail.results import plots

rng = np.random.default_rng(0)
n, d, s = 4000, 1000, 5
beta = np.zeros(d)
beta[rng.choice(d, s, replace=False)] = [1, -1, 1, -1, 1]
X = rng.standard_normal((n, d))
y = X @ beta + rng.standard_t(1.75, n)

model = fattail.DPSparseRegressor(epsilon=2.0, delta=1e-6, sparsity=s).fit(X, y)
print("chosen", sorted(model.support_), "true", sorted(np.flatnonzero(beta)))

# %%
# The noise in y has infinite variance; the coefficients are still close.

fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
ax.vlines(np.arange(d), 0, model.coef_, color=plots.COLORS[0], linewidth=1)
ax.plot(np.flatnonzero(model.coef_), model.coef_[model.coef_ != 0], "o", color=plots.COLORS[0], label="private, epsilon 2")
ax.plot(np.flatnonzero(beta), beta[beta != 0], "x", color=plots.COLORS[1], markersize=8, label="truth")
ax.set(xlabel="column", ylabel="coefficient")
ax.legend(frameon=False)
plt.show()

# %%
# Where the budget went:

print(model.privacy_)
