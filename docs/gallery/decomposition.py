"""Where uncertainty lies: right, wrong and out-of-distribution inputs.

A prediction's uncertainty has three terms: what more data would reduce, what the model cannot know about the
class probabilities of this input, and the overlap of the classes. Compare the bars within a panel: each panel
has its own scale.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal.nets import mlp

inputs, labels = (torch.tensor(column) for column in load_digits(return_X_y=True))
inputs = (inputs.float() - 8) / 6
train, test = slice(0, 1200), slice(1200, None)

# %%
# An Evidential Turing Process has all three terms.
torch.manual_seed(0)
model = totalcal.etp(mlp(64, 10), num_classes=10)
totalcal.train(model, inputs[train], labels[train], epochs=30)

# %%
# Digits with shuffled pixels are as bright as digits, but have no shape.
shuffled = inputs[test][:, torch.randperm(64, generator=torch.Generator().manual_seed(0))]
own, other = (model.predict(rows) for rows in (inputs[test], shuffled))
right = own.probabilities.argmax(1) == labels[test]

# %%
# Each term is one number per class; their sum over the classes is one number per input.
terms = {"reducible": [], "irreducible": [], "data": []}
for prediction, rows in ((own, right), (own, ~right), (other, slice(None))):
    for name, term in zip(terms, prediction.decompose(), strict=True):
        terms[name].append(term.sum(1)[rows].mean().item())

# %%
figure, all_axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axes, (name, values), colour in zip(
    all_axes, terms.items(), ("#5b8e7d", "#c9a227", "#1b4965"), strict=True
):
    axes.bar(["right", "wrong", "shuffled"], values, color=colour, width=0.6)
    axes.set_title(name)
all_axes[0].set_ylabel("mean variance of the label")
figure.savefig("decomposition.png", dpi=110)
