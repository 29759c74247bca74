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
from fattail import plots
from fattail.card import Card

costs = 1000 * np.random.default_rng(0).pareto(2.1, (20_000, 1))
ledger = fattail.Ledger(os.path.join(tempfile.mkdtemp(), "budget.db"))
account = ledger.open("costs-2026", epsilon=2.0, delta=1e-5)

# %%
# Ask until there is nothing left.

answers = []
try:
    while True:
        answers.append(fattail.DPMean(epsilon=0.5, delta=1e-6, ledger=account).fit(costs))
except fattail.BudgetExceededError as refusal:
    print(refusal)
print(f"{len(answers)} answers at epsilon 0.5 from a total of 2: composition is tighter than a sum")

# %%
# What was spent, in order.

plots.budget(account)
plt.show()

# %%
# The card of the last answer, as a notebook would show it (in a file: ``card.save("card.html")``).

Card.of(answers[-1], names=["cost"], facts={"rows": len(costs)}, account=account)
