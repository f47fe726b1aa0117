"""Nets for rows of numbers and of tokens: a perceptron and an LSTM."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from totalcal.origin import stamped


@stamped
def mlp(
    num_inputs: int, num_classes: int, hidden: Sequence[int] = (32,), dropout: float = 0.0
) -> nn.Sequential:
    """`num_inputs` → hidden layers with ReLU (and dropout after each, where asked) → `num_classes`.

    >>> import torch
    >>> mlp(4, 3, hidden=(32, 32))(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = num_inputs
    for index, next_width in enumerate(hidden, start=1):
        layers[f"linear{index}"] = nn.Linear(width, next_width)
        layers[f"relu{index}"] = nn.ReLU()
        if dropout:
            layers[f"dropout{index}"] = nn.Dropout(dropout)
        width = next_width
    layers["classes"] = nn.Linear(width, num_classes)
    return nn.Sequential(layers)


class LSTMClassifier(nn.Module):
    """Embedding → LSTM → the last step → one column a class.

    Texts are padded with token 0 on the left, so the last step has read the whole text: no length is needed.
    """

    def __init__(
        self, num_classes: int, vocabulary: int, embedding: int, hidden: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(hidden, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, length] of int64 → [batch, classes]."""
        steps, _ = self.lstm(self.embedding(tokens))  # [batch, length, hidden]
        logits: Tensor = self.classes(self.dropout(steps[:, -1]))
        return logits


@stamped
def lstm(
    num_classes: int,
    vocabulary: int = 1001,
    embedding: int = 64,
    hidden: int = 256,
    layers: int = 2,
    dropout: float = 0.0,
) -> LSTMClassifier:
    """`vocabulary` counts the padding, token 0; `dropout` stands before the last layer.

    >>> import torch
    >>> lstm(2, hidden=8)(torch.ones(3, 5, dtype=torch.int64)).shape
    torch.Size([3, 2])
    """
    return LSTMClassifier(num_classes, vocabulary, embedding, hidden, layers, dropout)
