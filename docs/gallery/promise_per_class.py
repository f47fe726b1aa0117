"""A promise for each class.

At most a tenth of the right answers are asked about: one bar keeps that over all digits, but asks about
many more of some than of others. With `PerClass` each predicted digit has a bar of its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import totalcal
from totalcal.decisions import PerClass

inputs, labels = load_digits(return_X_y=True)
inputs = inputs / 16

# %%
# The promise is a mean over held-out sets, so the figure is one over eight of them.
names = ["one bar", "a bar per class"]
asked = np.full((8, 2, 10), np.nan)
for seed in range(8):
    train, held_out, test = np.split(np.random.default_rng(seed).permutation(len(labels)), [200, 1000])
    classifier = LogisticRegression(max_iter=200).fit(inputs[train], labels[train])
    scores, new = (classifier.predict_proba(inputs[rows]) for rows in (held_out, test))
    for way, choice in enumerate((None, PerClass())):
        model = totalcal.calibrate_probabilities(scores, labels[held_out], beta=0.1, decisions=choice)
        prediction = model.predict(new)
        right = np.asarray(prediction.labels) == labels[test]
        is_asked = np.array(prediction.decision) == "ask"
        asked[seed, way] = [is_asked[right & (labels[test] == digit)].mean() for digit in range(10)]
print(model)

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for way, colour in enumerate(("#9aa5b1", "#1b4965")):
    axes.bar(np.arange(10) + 0.4 * way - 0.2, asked.mean(0)[way], 0.38, label=names[way], color=colour)
axes.axhline(0.1, color="#cccccc", linestyle="--", label="promised at most")
axes.set(xlabel="digit", ylabel="share of right answers asked about")
axes.set_xticks(range(10))
axes.legend(frameon=False)
figure.savefig("promise_per_class.png", dpi=110)
