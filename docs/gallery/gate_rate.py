"""A gate at a chosen rate.

"Reject at most 5 % of what you would have answered correctly": this promise holds for new rows, on average,
however many rows were held out. The figure shows, for several requested rates, what was actually rejected.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal.decisions import FalseRejection
from totalcal.nets import mlp

inputs, labels = (torch.tensor(column) for column in load_digits(return_X_y=True))
inputs = (inputs.float() - 8) / 6
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, held_out, test = order[:700], order[700:1200], order[1200:]

# %%
torch.manual_seed(0)
model = totalcal.etp(mlp(64, 10), num_classes=10)
totalcal.train(model, inputs[train], labels[train], epochs=30)

# %%
# A gate is fitted on held-out rows and reuses the draws it was fitted with.
rates = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3]
rejected_right, rejected_wrong = [], []
for rate in rates:
    gate = totalcal.Gate.fit(model, inputs[held_out], labels[held_out], rule=FalseRejection(rate))
    accepted = torch.as_tensor(gate.decide(model, inputs[test]).accepted)
    right = gate.predict(model, inputs[test]).probabilities.argmax(1) == labels[test]
    rejected_right.append((~accepted[right]).double().mean().item())
    rejected_wrong.append((~accepted[~right]).double().mean().item())
print(gate)

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(rates, rates, color="#cccccc", linestyle="--", label="promised at most")
axes.plot(rates, rejected_right, "o-", color="#1b4965", label="right answers rejected")
axes.plot(rates, rejected_wrong, "s-", color="#b56576", label="wrong answers rejected")
axes.set(xlabel="requested rate", ylabel="share of the test rows", ylim=(0, 1.02))
axes.legend(frameon=False)
figure.savefig("gate_rate.png", dpi=110)
