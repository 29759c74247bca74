"""
A budget over time
==================

A ledger is a file that several people may share. It is charged before noise is drawn, survives a
crash, composes what was done tightly, and refuses what it cannot pay for.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import fattail
from fattail.results import plots
from fattail.results.card import Card

rng = np.random.default_rng(0)
age = rng.uniform(18, 90, (20_000, 1))
cost = 40 * age[:, 0] + 1000 * rng.pareto(2.1, 20_000)
ledger = fattail.Ledger(os.path.join(tempfile.mkdtemp(), "budget.db"))
account = ledger.open("costs-2026", epsilon=2.0, delta=1e-5)

# %%
# Ask until there is nothing left.

answers = []
try:
    while True:
        answers.append(fattail.DPLinearRegression(epsilon=0.5, delta=1e-6, ledger=account).fit(age, cost))
except fattail.BudgetExceededError as refusal:
    print(refusal)
print(f"{len(answers)} answers at epsilon 0.5 from a total of 2: what was done composes better than epsilons add")

# %%
# What was spent, in order.

plots.budget(account)
plt.show()

# %%
# The card of the last answer, as a notebook would show it (in a file: ``card.save("card.html")``).

Card.of(answers[-1], names=["age"], facts={"rows": len(cost)}, account=account)
