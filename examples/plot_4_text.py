"""
Words that tell corporate news
==============================

Reuters newswire of 1987 as sparse counts: each document is a row, and the question is whether it is about
a company's earnings or acquisitions. Rows are compressed (CSR) from end to end.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import fattail
from _data import find
from fattail.results import plots

path = find("reuters21578.npz")
if path is not None:
    z = np.load(path)
    counts = sparse.csr_matrix((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    words = np.array(bytes(z["vocab"]).decode().split("\n"))
    y, train, test = z["corporate"].astype(int), z["modapte"] == 0, z["modapte"] == 1
else:
    rng = np.random.default_rng(0)
    counts = sparse.random(6000, 2000, 0.01, format="csr", random_state=1, data_rvs=lambda k: 1.0 + rng.poisson(1, k))
    words = np.array([f"word{j}" for j in range(2000)])
    y = (np.asarray(counts[:, :5].sum(axis=1)).ravel() > 0).astype(int)
    train = np.arange(6000) < 4000
    test = ~train
print(f"{train.sum()} rows for training, {counts.shape[1]} words,", "reuters21578.npz" if path else "made-up rows")

# %%
# A word is there or not: a function of that row alone, so it costs nothing.

X = counts.copy()
X.data[:] = 1.0

model = fattail.DPSparseClassifier(epsilon=2.0, delta=1e-6, sparsity=15).fit(X[train], y[train])
accuracy = np.mean(model.predict(X[test]) == y[test])
print(f"accuracy on rows it has not seen: {accuracy:.3f}; always the larger class: {max(y[test].mean(), 1 - y[test].mean()):.3f}")

# %%
# The words it chose, privately.

coef = np.ravel(model.coef_)
chosen = np.flatnonzero(coef)
chosen = chosen[np.argsort(coef[chosen])]
fig, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
ax.barh(words[chosen], coef[chosen], color=[plots.COLORS[1] if c < 0 else plots.COLORS[0] for c in coef[chosen]])
ax.set(xlabel="coefficient (positive: corporate)")
plt.show()
