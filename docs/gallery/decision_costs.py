"""Decisions of least cost.

A tumour that is called harmless costs more than a harmless one that is called a tumour, and to ask a doctor
costs something, too. `Costs` weighs the three. The figure shows what the decisions cost on test rows, while
the cost of a missed tumour grows, beside answering everything, asking about everything, and a fixed rate of
questions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import totalcal
from totalcal.decisions import Costs

inputs, labels = load_breast_cancer(return_X_y=True)  # 0 is a tumour, 1 is harmless
tumour, harmless, ask = 0, 1, 1.0


def paid(answers, accepted, truth, missed):
    """The mean cost per row; to call a harmless one a tumour costs 5."""
    matrix = np.array([[0, missed], [5, 0]])  # true class × answer
    return np.where(accepted, matrix[truth, answers], ask).mean()


# %%
# 569 patients are few: everything is repeated with six splits.
costs_of_a_miss = [5, 10, 20, 50, 100]
ways = ["answer all", "ask at a rate of 5 %", "least cost"]
found = np.zeros((6, len(ways), len(costs_of_a_miss)))
for seed in range(6):
    train, held_out, test = np.split(np.random.default_rng(seed).permutation(len(labels)), [150, 350])
    classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(inputs[train], labels[train])
    scores, new = (classifier.predict_proba(inputs[rows]) for rows in (held_out, test))
    usual = totalcal.calibrate_probabilities(scores, labels[held_out]).predict(new)
    accepted = np.array(usual.decision) == "accept"
    for place, missed in enumerate(costs_of_a_miss):
        costs = Costs([[0, missed], [5, 0]], ask=ask)
        model = totalcal.calibrate_probabilities(scores, labels[held_out], decisions=costs)
        chosen = model.predict(new)
        decided = [
            (usual.labels, np.ones(len(test), dtype=bool)),
            (usual.labels, accepted),
            (chosen.labels, np.array(chosen.decision) == "accept"),
        ]
        found[seed, :, place] = [paid(*each, labels[test], missed) for each in decided]
print(model)

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, values, colour in zip(ways, found.mean(0), ("#9aa5b1", "#b56576", "#1b4965"), strict=True):
    axes.plot(costs_of_a_miss, values, "o-", label=name, color=colour)
axes.axhline(ask, color="#cccccc", linestyle="--", label="ask about all")
axes.set(xlabel="cost of a missed tumour", ylabel="cost per patient", xscale="log", ylim=(0, None))
axes.set_xticks(costs_of_a_miss, map(str, costs_of_a_miss))
axes.legend(frameon=False)
figure.savefig("decision_costs.png", dpi=110)
