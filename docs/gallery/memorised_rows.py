"""New rows, memorised after training.

A domain memory can keep learning after training, without gradients. Once it has taken in some rows of a new
domain, other rows of that domain are familiar, while rows of neither domain are not. The dashed line is the
rate of false alarms to expect, 5 %.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal.nets import mlp

inputs, labels = (torch.tensor(column) for column in load_digits(return_X_y=True))
inputs = (inputs.float() - 8) / 6
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, held_out, new, test = order[:700], order[700:1000], order[1000:1400], order[1400:]

# %%
torch.manual_seed(0)
model = totalcal.softmax(mlp(64, 10), num_classes=10)
totalcal.train(model, inputs[train], labels[train], epochs=30)
totalcal.remember(model, (inputs[train], labels[train]), (inputs[held_out], labels[held_out]), progress=False)

# %%
# Three kinds of rows: digits, mirrored digits (the new domain), and digits with shuffled pixels.
mirrored = inputs.reshape(-1, 8, 8).flip(2).flatten(1)
shuffled = inputs[:, torch.randperm(64, generator=torch.Generator().manual_seed(0))]
kinds = {"digits": inputs[test], "mirrored": mirrored[test], "shuffled pixels": shuffled[test]}


def unfamiliar() -> list[float]:
    return [(model.predict(rows).familiarity <= 0.05).double().mean().item() for rows in kinds.values()]


before = unfamiliar()
model.memorise(mirrored[new], labels[new])
after = unfamiliar()
print(dict(zip(kinds, zip(before, after, strict=True), strict=True)))

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
places = torch.arange(3)
axes.bar(places - 0.2, before, 0.38, label="before", color="#9aa5b1")
axes.bar(places + 0.2, after, 0.38, label="after 400 mirrored digits", color="#1b4965")
axes.axhline(0.05, color="#cccccc", linestyle="--")
axes.set(ylabel="share with a familiarity of 5 % or less", ylim=(0, 1.02))
axes.set_xticks(places, kinds)
axes.legend(frameon=False)
figure.savefig("memorised_rows.png", dpi=110)
