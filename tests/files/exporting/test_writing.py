"""What has no form as a program of its own is refused, with the reason."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import totalcal
from totalcal import BNNClassifier, Model, export
from totalcal.decisions.sets import PredictionSets
from totalcal.errors import ContextError, ExportError, GateError, InputError, UnknownNameError
from totalcal.files.predicting.exported import open_exported
from totalcal.parts.moments import NoMomentRuleError

ROWS = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


class Looking(nn.Linear):
    """Does one thing or another, by the values of its inputs."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows if rows.sum() > 0 else -rows)


class Dropping(nn.Linear):
    """Draws in evaluation mode too."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(rows, 0.5, training=True))


@pytest.mark.parametrize("net", [Looking, Dropping])
def test_a_net_without_a_fixed_program(net, tmp_path):
    model = totalcal.softmax(net(4, 3), num_classes=3)
    with pytest.raises(ExportError, match="program"):
        export(model, tmp_path / "model.pt2", example=ROWS)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_needs_a_context_and_has_none(tmp_path):
    model = totalcal.anp(nn.Linear(4, 3), num_classes=3)
    with pytest.raises(ContextError, match="context"):
        export(model, tmp_path / "model.onnx", example=ROWS)


def test_what_is_no_model_of_the_family(tmp_path):
    with pytest.raises(ExportError, match="Linear"):
        export(nn.Linear(4, 3), tmp_path / "model.onnx", example=ROWS)


def test_moments_where_a_layer_has_no_rule(tmp_path):
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    with pytest.raises(NoMomentRuleError, match="LayerNorm"):
        export(totalcal.bnn(net, num_classes=3), tmp_path / "model.pt2", example=ROWS, draws="moments")


def test_rows_of_which_nothing_is_known_and_other_formats(tmp_path):
    model = totalcal.softmax(nn.Linear(4, 3), num_classes=3)
    with pytest.raises(InputError, match=r"--example rows\.npz"):
        export(model, tmp_path / "model.pt2")
    with pytest.raises(InputError, match="example rows"):
        export(model, tmp_path / "model.pt2", example=ROWS[:1])
    with pytest.raises(UnknownNameError, match="format"):
        export(model, tmp_path / "model.tflite", example=ROWS)


def test_convolutions_in_float64_have_no_kernels_in_onnxruntime(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    model = totalcal.softmax(net, num_classes=3).double()
    with pytest.raises(ExportError, match="--to pt2"):
        export(model, tmp_path / "model.onnx", example=torch.randn(4, 1, 4, 4).double())


def test_an_estimator_s_model_in_float64_is_exported_by_moments(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 4))
    made = BNNClassifier(max_epochs=2, random_state=0).fit(rows, np.arange(60) % 3)
    made.save(tmp_path / "model.totalcal")
    written = export(tmp_path / "model.totalcal", tmp_path / "model.onnx")
    assert written.description.draws == "moments"
    found = open_exported(tmp_path / "model.onnx").predict(rows)["probabilities"]
    np.testing.assert_allclose(found, made.predict_proba(rows), rtol=0, atol=1e-6)


def test_a_program_predicts_as_the_file_whose_sets_were_fitted_with_draws(tmp_path):
    model = totalcal.bnn(nn.Linear(4, 3), num_classes=3)
    prediction = model.predict(torch.randn(99, 4), draws=10)
    sets = PredictionSets.fitted(prediction, prediction.probabilities.argmax(1))
    saved = Model(model, sets=sets)
    assert export(saved, tmp_path / "model.pt2", example=ROWS).description.draws == 10
    found = open_exported(tmp_path / "model.pt2").predict(ROWS.numpy())["probabilities"]
    np.testing.assert_allclose(found, saved.predict(ROWS).probabilities, rtol=0, atol=1e-6)


def test_draws_that_are_not_those_of_the_gate(exported_mlp, tmp_path):
    saved, path = exported_mlp
    with pytest.raises(GateError, match="fitted on predictions with 3 draws"):
        export(saved, tmp_path / "model.pt2", draws=5)
    with pytest.raises(GateError, match="seed 0"):
        export(saved, tmp_path / "model.pt2", seed=1)
    with pytest.raises(GateError, match="3 draws"):
        open_exported(path).check_draws(10)


def test_a_program_takes_the_arguments_of_a_model_and_refuses_what_it_cannot_do(tmp_path):
    saved, rows = Model(totalcal.etp(nn.Linear(4, 3), num_classes=3)), torch.randn(5, 4)
    export(saved, tmp_path / "model.pt2", example=rows, draws=3, seed=2)
    exported = open_exported(tmp_path / "model.pt2")
    expected = saved.predict(rows, draws=3, seed=2).probabilities
    for asked in ({}, {"draws": 3, "seed": 2}, {"draws": "auto", "seed": 2}):
        found = exported.predict(rows.numpy(), **asked)["probabilities"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    for asked in ({"draws": 4, "seed": 2}, {"draws": 3, "seed": 1}, {"draws": "moments"}, {"draws": 0}):
        with pytest.raises(GateError, match="3 draws of seed 2"):
            exported.predict(rows.numpy(), **asked)
    with pytest.raises(ContextError):
        exported.predict(rows.numpy(), context=(rows, torch.zeros(5, dtype=torch.int64)))


def test_rows_of_another_shape(exported_mlp):
    with pytest.raises(InputError, match="shape"):
        open_exported(exported_mlp[1]).predict(np.zeros((2, 5)))


def test_several_inputs_are_taken_by_name(tmp_path):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.classes = nn.Embedding(9, 4), nn.Linear(4, 3)

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            weights = mask / mask.sum(1, keepdim=True)
            return self.classes((self.words(ids) * weights.unsqueeze(-1)).sum(1))

    rows = {"ids": torch.arange(24).view(4, 6) % 9, "mask": torch.ones(4, 6)}
    saved = Model(totalcal.etp(Two(), num_classes=3))
    export(saved, tmp_path / "model.pt2", example=rows, draws=3)
    exported = open_exported(tmp_path / "model.pt2")
    found = exported.predict({f"inputs/{name}": part.numpy() for name, part in rows.items()})
    expected = saved.predict(rows, draws=3).probabilities
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
