"""Watching a stream that drifts.

A monitor bets against the hypothesis that the stream looks like the held-out rows. As long as it does, the
bets tend to lose. An alarm is raised when the bets on one of the two scores have turned a capital of 1 into
200 (2.3 on the axis of the figure). For an in-distribution stream, however long, the probability of an alarm
is at most 1/100.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import totalcal
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.nets import mlp

inputs, labels = (torch.tensor(column) for column in load_digits(return_X_y=True))
inputs = (inputs.float() - 8) / 6
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, remembered, held_out, stream = order[:800], order[800:1000], order[1000:1300], order[1300:]

# %%
# The monitor starts from the scores of 300 held-out rows: entropy and unfamiliarity.
torch.manual_seed(0)
model = totalcal.softmax(mlp(64, 10), num_classes=10)
totalcal.train(model, inputs[train], labels[train], epochs=30)
totalcal.remember(
    model, (inputs[train], labels[train]), (inputs[remembered], labels[remembered]), progress=False
)
monitor = Monitor.start(watched_scores(model.predict(inputs[held_out])))

# %%
# For 250 rows nothing changes. Then a sensor ages: the images get a little brighter with every row.
rows = inputs[stream].clone()
ageing = torch.arange(len(rows) - 250)[:, None] / 100
rows[250:] = rows[250:] + ageing
capital = []
for row in rows:
    status = monitor.update(watched_scores(model.predict(row[None])))
    capital.append(max(status.capital.values()))
print(status)  # which score has shifted, and at which row it was noticed

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(np.log10(capital), color="#1b4965")
axes.axvline(250, color="#9aa5b1", linestyle="--")
axes.annotate("drift begins", (250, 18), xytext=(-6, 0), textcoords="offset points", ha="right")
axes.set(xlabel="row of the stream", ylabel="log₁₀ of the largest capital", ylim=(-3, 20))
figure.savefig("drifting_stream.png", dpi=110)
