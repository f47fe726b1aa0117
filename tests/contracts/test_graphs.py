"""A net over a graph, `forward(x, edge_index)`: its nodes are rows in every way that a model is used."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import totalcal
from totalcal.errors import InputError, ShapeError
from totalcal.files.predicting.exported import open_exported
from totalcal.nets import OfNodes

NODES = 400


class Convolutions(nn.Module):
    """Two steps of a graph convolution: the mean over neighbours, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)

    def forward(self, x, edge_index):
        def mean(rows):
            source, target = edge_index
            total = torch.zeros_like(rows).index_add(0, target, rows[source])
            degree = torch.zeros(rows.shape[0], dtype=rows.dtype).index_add(
                0, target, torch.ones_like(rows[source, 0])
            )
            return total / degree.clamp_min(1).unsqueeze(1)

        return self.last(mean(self.act(self.first(mean(x)))))


@pytest.fixture(scope="module")
def graph():
    """Nodes of three groups, most edges within one; a trained net; numbers of nodes for each purpose."""
    noise = torch.Generator().manual_seed(0)
    y = torch.randint(3, (NODES,), generator=noise)
    x = torch.randn(NODES, 6, generator=noise)
    x[:, :3] += F.one_hot(y, 3)
    pairs = torch.randint(NODES, (2, 12_000), generator=noise)
    kept = (y[pairs[0]] == y[pairs[1]]) | (torch.rand(pairs.shape[1], generator=noise) < 0.2)
    edges = torch.cat([pairs[:, kept], torch.arange(NODES).expand(2, -1)], 1)
    train, held_out, test = torch.randperm(NODES, generator=noise).split([150, 150, 100])
    torch.manual_seed(0)
    net = Convolutions()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(net(x, edges)[train], y[train]).backward()
        optimizer.step()
    return net.eval(), x, edges, y, train, held_out, test


def test_nodes_are_calibrated_remembered_taught_saved_and_exported(graph, tmp_path):
    net, x, edges, y, train, held_out, test = graph
    of_nodes = OfNodes(net, x, edge_index=edges)
    model = totalcal.calibrate(of_nodes, (train, y[train]), (held_out, y[held_out]), progress=False)
    prediction = model.predict(test)
    assert (prediction.labels == y[test].numpy()).mean() > 0.85
    uncalibrated = totalcal.softmax(of_nodes, num_classes=3).predict(test).probabilities
    torch.testing.assert_close(
        uncalibrated, net(x, edges)[test].softmax(1).double().detach(), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(model.predict(test[:7]).familiarity, prediction.familiarity[:7])
    assert (prediction.familiarity <= 0.05).double().mean() < 0.15

    model.save(tmp_path / "nodes.totalcal")
    again = totalcal.load(
        tmp_path / "nodes.totalcal", backbone=OfNodes(Convolutions(), x, edge_index=edges)
    ).predict(test)
    assert torch.equal(again.probabilities, prediction.probabilities)
    strange = OfNodes(Convolutions(), x + 20 * (torch.arange(NODES) % 2)[:, None], edge_index=edges)
    elsewhere = totalcal.load(tmp_path / "nodes.totalcal", backbone=strange).predict(test)
    assert (elsewhere.familiarity <= 0.05).double().mean() > 0.9

    totalcal.export(model, tmp_path / "nodes.onnx", example=test[:8])
    exported = open_exported(tmp_path / "nodes.onnx").predict(test.numpy())["probabilities"]
    np.testing.assert_allclose(exported, prediction.probabilities, atol=1e-5)


@pytest.mark.parametrize("name", ["etp", "bnn"])
def test_models_of_the_family_train_around_it(graph, name):
    net, x, edges, y, train, _, test = graph
    model = getattr(totalcal, name)(OfNodes(net, x, edge_index=edges), num_classes=3)
    totalcal.fit(model, (train, y[train]), epochs=2, progress=False)
    first, second = (model.predict(rows, draws=5).probabilities for rows in (test, test[:9]))
    torch.testing.assert_close(second, first[:9])


def test_inputs_that_are_not_by_row_are_refused_with_the_way_to_give_them(graph):
    net, x, edges, *_ = graph
    for inputs in ((x, edges), {"x": x, "edge_index": edges}):
        with pytest.raises(ShapeError, match="OfNodes"):
            totalcal.softmax(net, num_classes=3).predict(inputs)


@pytest.mark.parametrize("rows", [torch.randn(4, 6), torch.arange(NODES) < 9, torch.tensor([3, NODES])])
def test_rows_that_are_no_numbers_of_nodes_are_refused(graph, rows):
    net, x, edges, *_ = graph
    with pytest.raises(InputError, match=f"{NODES - 1}"):
        totalcal.softmax(OfNodes(net, x, edge_index=edges), num_classes=3).predict(rows)
