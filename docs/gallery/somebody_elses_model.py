"""Evaluating somebody else's model.

`evaluate` takes any predictor that gives probabilities, here three from scikit-learn. Which one fits (low
NLL), which is calibrated (low ECE), and which notices digits with shuffled pixels (high AUROC)? The
perceptron fits best and is well calibrated; the random forest notices shuffled pixels best and is the least
calibrated.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import totalcal
from totalcal.scores import from_sklearn

inputs, labels = load_digits(return_X_y=True)
train, test = slice(0, 1200), slice(1200, None)
shuffled = inputs[test][:, np.random.default_rng(0).permutation(64)]

# %%
# `from_sklearn` turns a fitted classifier into a predictor; the entropy of its predictions ranks the inputs.
classifiers = {
    "logistic regression": LogisticRegression(max_iter=2000),
    "random forest": RandomForestClassifier(random_state=0),
    "perceptron": MLPClassifier(random_state=0, max_iter=500),
}
verdicts = {
    name: totalcal.evaluate(
        from_sklearn(classifier.fit(inputs[train], labels[train])),
        (inputs[test], labels[test]),
        ood={"shuffled pixels": shuffled},
    )
    for name, classifier in classifiers.items()
}
print(verdicts["random forest"])

# %%
figure, all_axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
scores = {
    "NLL, nats": [verdict.nll for verdict in verdicts.values()],
    "ECE, %": [100 * verdict.ece.value for verdict in verdicts.values()],
    "AUROC of the entropy, %": [100 * verdict.auroc for verdict in verdicts.values()],
}
for axes, (title, values) in zip(all_axes, scores.items(), strict=True):
    axes.barh(list(verdicts), values, color="#1b4965", height=0.5)
    axes.set_xlabel(title)
figure.savefig("somebody_elses_model.png", dpi=110)
