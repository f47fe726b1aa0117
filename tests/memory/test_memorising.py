"""What is memorised, through models, names of classes, files, estimators, exports and the command line."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import totalcal
from totalcal import MODELS, Pipeline, SoftmaxClassifier, remember
from totalcal.cli import app, run_application
from totalcal.errors import DomainError, InputError, LabelError, UnknownNameError
from totalcal.files.predicting.exported import open_exported
from totalcal.files.saved import Model
from totalcal.nets import mlp

NAMES = ("ant", "bee", "cat")


def rows_of(seed: int, count: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    return torch.randn(count, 4, generator=generator) + 5 * torch.eye(4)[labels], labels


def new_rows(seed: int, count: int) -> Tensor:
    return rows_of(seed, 4 * count, classes=4)[0][3::4]


def trained(name: str = "softmax") -> totalcal.models.TuringProcess:
    torch.manual_seed(0)
    process = MODELS[name](mlp(4, 3, hidden=(16,)), num_classes=3)
    totalcal.train(process, *rows_of(0, 600), epochs=5, learning_rate=0.01, batch_size=64)
    remember(process, rows_of(0, 600), rows_of(1, 300), progress=False)
    return process.eval()


@pytest.fixture
def model() -> Model:
    return Model(trained(), classes=NAMES)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_a_class_and_its_terms_add_up(name: str) -> None:
    process = trained(name)
    process.memorise(new_rows(2, 40), torch.full((40,), 3))
    context = rows_of(7, 60) if name == "anp" else None  # of the classes of its net
    found = process.predict(torch.cat([rows_of(3, 90)[0], new_rows(4, 30)]), context=context)
    truth = torch.cat([rows_of(3, 90)[1], torch.full((30,), 3)])
    assert found.probabilities.shape == (120, 4)
    assert (found.probabilities.argmax(-1) == truth).double().mean() > 0.9
    assert_allclose(found.probabilities.sum(-1), 1, rtol=1e-9)
    assert (found.entropy >= found.mutual_information).all()
    assert found.decompose().data.shape == (120, 4)
    assert (process.num_classes, process.net_classes) == (4, 3)


def test_a_joint_over_learned_classes_is_a_distribution() -> None:
    process = trained()
    process.memorise(new_rows(2, 40), torch.full((40,), 3))
    rows = rows_of(3, 1)[0]
    total = sum(process.log_joint(rows, torch.tensor([c]), draws=1).exp() for c in range(4))
    assert float(total) == pytest.approx(1)


def test_a_new_name_is_a_new_class_and_forgetting_brings_back_the_model(model: Model) -> None:
    before = model.predict(rows_of(3, 50)[0])
    said = model.memorise(new_rows(2, 60), ["dog"] * 60)
    assert model.classes == (*NAMES, "dog")
    assert said.name == "dog"
    assert said.new_classes == ("dog",)
    assert "dog: 60 rows, new classes dog" in str(said)
    told = model.predict(new_rows(5, 50)).probabilities.argmax(-1)
    assert (told == 3).double().mean() > 0.9
    model.forget("dog")
    after = model.predict(rows_of(3, 50)[0])
    assert model.classes == NAMES
    assert torch.equal(after.probabilities, before.probabilities)
    assert torch.equal(after.familiarity, before.familiarity)
    with pytest.raises(UnknownNameError, match="dog"):
        model.forget("dog")


def test_sets_of_classes_rest_while_a_class_is_learned_and_the_print_says_what_is_promised() -> None:
    net = torch.nn.Linear(4, 3)
    rows, labels = rows_of(0, 400)
    model = totalcal.calibrate(net, (rows[:200], labels[:200]), (rows[200:], labels[200:]), progress=False)
    asked, before = rows_of(3, 50)[0], str(model)
    sets = model.predict(asked).set(0.9)
    model.memorise(new_rows(2, 60), torch.full((60,), 3), name="dogs")
    with pytest.raises(InputError, match="held-out rows"):
        model.predict(asked).set(0.9)
    said = str(model).splitlines()
    assert any("dogs" in line and "24 rows held out" in line for line in said)
    assert any("no sets of classes" in line for line in said)
    model.forget("dogs")
    assert torch.equal(model.predict(asked).set(0.9), sets)
    assert str(model) == before
    model.memorise(5 + rows[:60], labels[:60], name="another domain")
    assert any("select_unfamiliar rests" in line for line in str(model).splitlines())


def test_labels_may_be_a_list_of_numbers() -> None:
    process = trained()
    process.memorise(new_rows(2, 60), [3] * 60, "dogs")
    assert process.num_classes == 4


def test_two_classes_at_once_stand_in_the_order_of_their_names(model: Model) -> None:
    rows = torch.cat([new_rows(2, 40), new_rows(3, 40) - 10])
    model.memorise(rows, ["yak"] * 40 + ["eel"] * 40, name="animals")
    assert model.classes == (*NAMES, "eel", "yak")
    told = model.predict(new_rows(6, 20)).probabilities.argmax(-1)
    assert (told == 4).double().mean() > 0.9
    model.forget("animals")
    assert model.classes == NAMES


def test_what_was_learned_is_in_the_file_and_the_loaded_model_learns_on(model: Model, tmp_path) -> None:
    model.memorise(new_rows(2, 60), ["dog"] * 60)
    model.save(tmp_path / "it.totalcal")
    again = totalcal.load(tmp_path / "it.totalcal")
    rows = torch.cat([rows_of(3, 30)[0], new_rows(4, 30)])
    ours, theirs = model.predict(rows), again.predict(rows)
    assert again.classes == (*NAMES, "dog")
    assert torch.equal(ours.probabilities, theirs.probabilities)
    assert torch.equal(ours.familiarity, theirs.familiarity)
    again.memorise(new_rows(3, 30) - 10, ["eel"] * 30)
    again.forget("dog")
    assert again.classes == (*NAMES, "eel")
    assert again.predict(rows).probabilities.shape == (60, 4)


def test_an_export_answers_with_what_was_learned_and_cannot_learn(model: Model, tmp_path) -> None:
    model.memorise(new_rows(2, 60), ["dog"] * 60)
    rows = torch.cat([rows_of(3, 30)[0], new_rows(4, 30)])
    totalcal.export(model, tmp_path / "it.pt2", example=rows[:4])
    exported = open_exported(tmp_path / "it.pt2")
    assert exported.classes == (*NAMES, "dog")
    found = exported.predict(rows.numpy())
    assert_allclose(found["probabilities"], model.predict(rows).probabilities, atol=1e-5)
    code = run_application(
        app, ["memorise", str(tmp_path / "it.pt2"), "x.npz", "-o", str(tmp_path / "o.totalcal")]
    )
    assert code != 0


def test_the_command_line_memorises_and_forgets(model: Model, tmp_path, capsys) -> None:
    model.save(tmp_path / "it.totalcal")
    np.savez(tmp_path / "new.npz", inputs=new_rows(2, 60).numpy(), labels=np.array(["dog"] * 60))
    words = [
        "memorise",
        str(tmp_path / "it.totalcal"),
        str(tmp_path / "new.npz"),
        "-o",
        str(tmp_path / "b.totalcal"),
    ]
    assert run_application(app, words) == 0
    assert "new classes dog" in capsys.readouterr().out
    assert totalcal.load(tmp_path / "b.totalcal").classes == (*NAMES, "dog")
    words = ["memorise", str(tmp_path / "b.totalcal"), "--forget", "dog", "-o", str(tmp_path / "c.totalcal")]
    assert run_application(app, words) == 0
    assert totalcal.load(tmp_path / "c.totalcal").classes == NAMES


@pytest.mark.parametrize("in_a_pipeline", [False, True])
def test_an_estimator_learns_a_class(in_a_pipeline: bool) -> None:
    rows, labels = rows_of(0, 900)
    classifier = SoftmaxClassifier(max_epochs=8, random_state=0)
    model = Pipeline([("scale", StandardScaler()), ("net", classifier)]) if in_a_pipeline else classifier
    model.fit(rows.numpy(), np.array(NAMES)[labels])
    before = model.predict_proba(rows[:50].numpy())
    model.memorise(new_rows(2, 60).numpy(), ["dog"] * 60)
    assert classifier.classes_.tolist() == [*NAMES, "dog"]
    assert (model.predict(new_rows(3, 50).numpy()) == "dog").mean() > 0.9
    model.forget("dog")
    assert_array_equal(model.predict_proba(rows[:50].numpy()), before)


def test_what_cannot_be_memorised_is_said_in_words(model: Model) -> None:
    with pytest.raises(DomainError, match="remember"):
        Model(MODELS["softmax"](mlp(4, 3), 3), classes=NAMES).memorise(new_rows(2, 9), ["dog"] * 9)
    with pytest.raises(InputError, match="2 rows of class dog"):
        model.memorise(new_rows(2, 1), ["dog"])
    with pytest.raises(InputError, match="cannot tell class dog from class ant"):
        model.memorise(rows_of(5, 180)[0][::3], ["dog"] * 60)
    with pytest.raises(InputError, match="shape"):
        model.memorise(torch.randn(20, 5), ["dog"] * 20)
    with pytest.raises(InputError, match="labels of shape"):
        model.memorise(new_rows(2, 20), ["dog"] * 19)
    unnamed = Model(model.process)
    with pytest.raises(LabelError, match=r"no names.*3"):
        unnamed.memorise(new_rows(2, 20), ["dog"] * 20)
    with pytest.raises(LabelError, match="words"):
        model.process.memorise(new_rows(2, 20), ["dog"] * 20)
    numbered = Model(model.process, classes=(1, 2, 3))
    with pytest.raises(LabelError, match="another type"):
        numbered.memorise(new_rows(2, 20), ["1"] * 20)
    with pytest.raises(LabelError, match="have no names"):
        Model(model.process).memorise(new_rows(2, 20), ["dog"] * 20)
    assert model.classes == NAMES
    assert model.predict(rows_of(3, 5)[0]).probabilities.shape == (5, 3)
