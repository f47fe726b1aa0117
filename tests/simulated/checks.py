"""Everything that a user does, on the simulated device; `contracts/test_devices.py` runs it as a process."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from totalcal import MODELS, Gate, TuringProcess, audit, calibrate, evaluate, load, remember, save
from totalcal.baselines import Ensemble, MCDropout, OODScored, temperature_scaled
from totalcal.decisions.monitor import Monitor, watched_scores
from totalcal.decisions.rules import Coverage
from totalcal.files.predicting.answers import answers
from totalcal.inputs import received_by
from totalcal.scores import from_module
from totalcal.types import Batch, ContextUse, Predictive, Predictor

from .device import NAME, DeviceError, Simulated, set_up

DEVICE = set_up()
CLASSES = 3


def data(rows: int = 160) -> Batch:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    return Batch(2 * torch.eye(CLASSES, 4)[labels] + torch.randn(rows, 4, generator=generator), labels)


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, CLASSES)
    return nn.Sequential(*layers).eval()


class Text(nn.Module):
    """Tokens, padded with 0."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix, self.out = (
            nn.Embedding(9, 8, padding_idx=0),
            nn.Linear(8, 8),
            nn.Linear(8, CLASSES),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        seen = self.mix(self.words(tokens)).relu()
        return self.out(seen.mean(1))  # type: ignore[no-any-return]


def judged(model: TuringProcess) -> Predictor:
    rows = data()
    needed = model.context_use is ContextUse.REQUIRED
    return model.given(Batch(rows.inputs[:9], rows.labels[:9])) if needed else model


def same(found: Predictive, expected: Predictive) -> None:
    torch.testing.assert_close(found.probabilities.cpu(), expected.probabilities, rtol=1e-4, atol=1e-6)


@pytest.fixture(params=sorted(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_device_refuses_what_a_real_one_refuses() -> None:
    here, there = torch.randn(3, 3), torch.randn(3, 3).to(DEVICE)
    assert there.device == DEVICE
    with pytest.raises(DeviceError):
        here @ there
    with pytest.raises(DeviceError):
        here[torch.tensor([0]).to(DEVICE)]
    with pytest.raises(DeviceError):
        torch.randn(3, device=DEVICE, generator=torch.Generator())
    with pytest.raises(TypeError, match=NAME):
        np.asarray(there)
    assert there[torch.tensor([0])].shape == (1, 3)
    torch.testing.assert_close((2 * there).cpu(), 2 * there.cpu())


@pytest.mark.parametrize("way", ["the net is there", "the model is moved"])
def test_every_model_predicts_as_on_the_cpu_wherever_rows_come_from(name: str, way: str) -> None:
    torch.manual_seed(1)
    plain = MODELS[name](net(), CLASSES).eval()
    if way == "the net is there":
        torch.manual_seed(1)
        moved = MODELS[name](net().to(DEVICE), CLASSES).eval()
        assert {each.device for each in moved.parameters()} == {DEVICE}
        moved.load_state_dict(plain.state_dict())
    else:
        moved = copy.deepcopy(plain).to(DEVICE)
    rows = data().inputs
    for draws in (0, 5, "moments"):
        expected = judged(plain).predict(rows, draws=draws)
        for given in (rows, rows.to(DEVICE), rows.double().numpy()):
            found = judged(moved).predict(given, draws=draws)
            assert isinstance(found.probabilities, Simulated)
            same(found, expected)
            torch.testing.assert_close(
                found.decompose().summed().reducible.cpu(),
                expected.decompose().summed().reducible,
                atol=1e-6,
                rtol=1e-3,
            )
    assert moved.measure_default_draws(rows, judged(moved).context if name == "anp" else None) in (
        10,
        "moments",
    )


def test_every_model_learns_there(name: str) -> None:
    rows, model = data(), MODELS[name](net().to(DEVICE), CLASSES)
    optimizer = torch.optim.Adam(model.parameters())
    for generator in (None, torch.Generator().manual_seed(0)):
        for inputs in (rows.inputs, rows.inputs.to(DEVICE)):
            optimizer.zero_grad()
            model.train()(inputs, rows.labels, 20, generator).total(examples=160).backward()
            optimizer.step()
    context = (rows.inputs[:9], rows.labels[:9]) if name == "anp" else None
    assert float(model.log_joint(rows.inputs[:3], rows.labels[:3], context=context)) < 0


def test_every_model_remembers_decides_and_is_watched_there(name: str, tmp_path) -> None:
    rows, model = data(), MODELS[name](net().to(DEVICE), CLASSES).eval()
    remember(model, (rows.inputs[:80], rows.labels[:80]), (rows.inputs[80:], rows.labels[80:]))
    predictor = judged(model)
    found = predictor.predict(rows.inputs)
    assert found.familiarity.shape == (160,)
    model.memorise(rows.inputs[:40] + 20, rows.labels[:40], name="elsewhere")
    model.memorise(rows.inputs[:40] - 20, torch.full((40,), CLASSES), name="a class")
    assert predictor.predict(rows.inputs).probabilities.shape == (160, CLASSES + 1)
    model.forget("a class")
    gate = Gate.fit(predictor, rows.inputs, rows.labels, score="unfamiliarity", rule=Coverage(0.8))
    assert gate.decide(predictor, rows.inputs.to(DEVICE)).accepted.any()
    Monitor.start(watched_scores(predictor.predict(rows.inputs)))
    verdict = evaluate(predictor, (rows.inputs, rows.labels), {"far": 9 * rows.inputs.to(DEVICE)})
    assert verdict.nll > 0
    temperature_scaled(predictor, (rows.inputs, rows.labels)).predict(rows.inputs)
    save(model, tmp_path / "it.totalcal")
    again = load(tmp_path / "it.totalcal", backbone=net())
    if name != "anp":
        same(predictor.predict(rows.inputs), again.predict(rows.inputs))


def test_a_memory_of_tokens_learns_a_second_domain_there() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens, labels = torch.randint(1, 9, (200, 6), generator=generator), torch.arange(200) % CLASSES
    tokens[::3, 4:] = 0
    torch.manual_seed(0)
    model = MODELS["softmax"](Text().to(DEVICE), CLASSES).eval()
    remember(model, (tokens[:100], labels[:100]), (tokens[100:], labels[100:]))
    model.memorise(tokens[:50], labels[:50], name="again")
    assert model.predict(tokens).familiarity.shape == (200,)


def test_baselines_and_external_predictors_predict_there() -> None:
    rows, there = data(), net().to(DEVICE)
    plain = from_module(there, "logits")
    dropping = MCDropout(there, "logits")
    same(dropping.predict(rows.inputs), MCDropout(net(), "logits").predict(rows.inputs))
    for predictor in (plain, dropping, Ensemble([plain, plain]), temperature_scaled(plain, rows)):
        assert evaluate(predictor, (rows.inputs, rows.labels)).nll > 0
    scored = OODScored(MODELS["softmax"](there, CLASSES).eval(), rows)
    assert scored.predict(rows.inputs).scores


def test_a_wrapped_net_is_calibrated_there() -> None:
    rows, there = data(400), net().to(DEVICE)
    whole = calibrate(there, (rows.inputs[:200], rows.labels[:200]), (rows.inputs[200:], rows.labels[200:]))
    assert set(whole.predict(rows.inputs).decision) <= {"accept", "ask", "not my domain"}


def test_a_calibrated_net_answers_is_audited_and_reported_there(tmp_path) -> None:
    rows, there = data(400), net().to(DEVICE)
    whole = calibrate(there, (rows.inputs[:200], rows.labels[:200]), (rows.inputs[200:], rows.labels[200:]))
    found = answers(whole, rows.inputs[:9].numpy())
    assert len(found.best) == len(found.decisions) == 9
    prediction = whole.predict(rows.inputs)
    assert whole.sets is not None
    assert (whole.sets.of(prediction.probabilities) == np.asarray(prediction.set())).all()
    whole.report((rows.inputs, rows.labels), {"far": 9 * rows.inputs}).save(tmp_path / "page.html")
    assert len(audit(whole, rows.inputs, rows.labels).probabilities) == 400
    whole.save(tmp_path / "it.totalcal")
    assert load(tmp_path / "it.totalcal", backbone=net()).digest == whole.digest


def test_rows_are_moved_by_one_rule() -> None:
    given = received_by(
        net().to(DEVICE), {"a": torch.zeros(2, 4).double(), "b": torch.zeros(2, dtype=torch.int64)}
    )
    assert {(each.device, each.dtype) for each in given.values()} == {
        (DEVICE, torch.float32),
        (DEVICE, torch.int64),
    }
