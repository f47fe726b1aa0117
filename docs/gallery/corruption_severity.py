"""Error and familiarity under corruption.

How fast does the error grow as images get worse, and does the domain memory notice? Here are four of the
nineteen corruptions, at five severities. The memory notices low contrast and fog at severity 1, well before
the error grows, and it also notices blur and, less often, noise, which hardly hurt this net.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import totalcal
from totalcal.nets import small_convnet
from totalcal_lab.corruptions import corrupt

labels = torch.tensor(load_digits().target)
images = (load_digits().images / 16 * 255).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)  # 32 × 32


def inputs(images: np.ndarray) -> Tensor:
    return torch.tensor(images[:, None] / 127.5 - 1, dtype=torch.float32)


# %%
# A small convolutional net learns 1,000 digits and remembers them; 400 others calibrate the memory.
torch.manual_seed(0)
model = totalcal.softmax(small_convnet(10, image=(1, 32, 32), widths=(8, 16, 64)), num_classes=10)
totalcal.train(model, inputs(images[:1000]), labels[:1000], epochs=15)
totalcal.remember(
    model,
    (inputs(images[:1000]), labels[:1000]),
    (inputs(images[1000:1400]), labels[1000:1400]),
    progress=False,
)

# %%
# Corrupt the last 397 digits; severity 0 leaves them as they are.
test, truth = images[1400:], labels[1400:]
types = ("gaussian_noise", "defocus_blur", "contrast", "fog")
measured = {type: [] for type in types}
for type in types:
    for severity in range(6):
        seen = corrupt(test, type, severity) if severity else test
        prediction = model.predict(inputs(seen))
        wrong = (prediction.probabilities.argmax(1) != truth).double().mean().item()
        measured[type].append((wrong, (prediction.familiarity <= 0.05).double().mean().item()))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharex=True)
for type, values in measured.items():
    errors, alarms = zip(*values, strict=True)
    left.plot(range(6), errors, "o-", label=type.replace("_", " "))
    right.plot(range(6), alarms, "o-")
left.set(xlabel="severity (0 is clean)", ylabel="error rate", ylim=(0, 1))
right.set(xlabel="severity (0 is clean)", ylabel="share with a familiarity of 5 % or less", ylim=(0, 1.02))
left.legend(frameon=False)
figure.savefig("corruption_severity.png", dpi=110)
