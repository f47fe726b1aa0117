"""Familiarity of rotated digits.

A net that has only seen upright digits stays fairly confident as they rotate, even where most of its answers
are wrong. Its features give the rotation away: familiarity, a conformal p-value, falls from 15 degrees on.
The dashed line is what to expect of upright digits: about 5 % have a familiarity of 5 % or less.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from torch import Tensor

import totalcal
from totalcal.nets import mlp

images, labels = load_digits().images, torch.tensor(load_digits().target)


def inputs(images: np.ndarray) -> Tensor:
    return torch.tensor((images.reshape(len(images), 64) - 8) / 6, dtype=torch.float32)


# %%
# A plain net is trained on 1,000 upright digits and remembers them; 400 others calibrate the p-value.
torch.manual_seed(0)
model = totalcal.softmax(mlp(64, 10), num_classes=10)
totalcal.train(model, inputs(images[:1000]), labels[:1000], epochs=30)
totalcal.remember(
    model,
    (inputs(images[:1000]), labels[:1000]),
    (inputs(images[1000:1400]), labels[1000:1400]),
    progress=False,
)

# %%
# Rotate the last 397 digits step by step.
angles = np.arange(0, 181, 15)
unfamiliar, sure, wrong = [], [], []
for angle in angles:
    turned = rotate(images[1400:], angle, axes=(1, 2), reshape=False, order=1)
    prediction = model.predict(inputs(turned))
    unfamiliar.append((prediction.familiarity <= 0.05).double().mean().item())
    sure.append(prediction.probabilities.max(1).values.mean().item())
    wrong.append((prediction.probabilities.argmax(1) != labels[1400:]).double().mean().item())
print(f"upright: {unfamiliar[0]:.1%} have a familiarity of 5 % or less; rotated by 90°: {unfamiliar[6]:.1%}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(angles, wrong, label="error rate", color="#b56576")
axes.plot(angles, sure, label="mean confidence", color="#9aa5b1")
axes.plot(angles, unfamiliar, label="familiarity of 5 % or less", color="#1b4965", linewidth=2.5)
axes.axhline(0.05, color="#cccccc", linestyle="--")
axes.set(xlabel="rotation, degrees", ylabel="share of 397 digits", ylim=(0, 1.02), xticks=angles[::2])
axes.legend(frameon=False)
figure.savefig("rotated_digits.png", dpi=110)
