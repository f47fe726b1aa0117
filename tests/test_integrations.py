"""Calibration at the end of others' training: the real Lightning, the real Trainer, tiny nets."""

import csv
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import totalcal
from totalcal.errors import InputError


def labelled_rows(count, seed):
    noise = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=noise)
    return inputs, (inputs[:, :3] + torch.randn(count, 3, generator=noise)).argmax(1)


TRAIN, HELD_OUT, TEST = labelled_rows(200, 0), labelled_rows(160, 1), labelled_rows(100, 2)


@pytest.fixture
def lightning():
    return pytest.importorskip("pytorch_lightning", reason="the extra `test` brings pytorch-lightning")


@pytest.fixture
def classifier(lightning):
    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))

        def forward(self, inputs):
            return self.layers(inputs)

        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch, index):
            self.log("loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 3e-2)

    torch.manual_seed(0)
    return Classifier()


def trained(lightning, module, callback, folder, *loaders):
    trainer = lightning.Trainer(
        max_epochs=8,
        accelerator="cpu",
        logger=lightning.loggers.CSVLogger(folder),
        callbacks=[callback],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, *loaders)
    return trainer


def loader(rows, shuffle=False):
    return DataLoader(TensorDataset(*rows), 50, shuffle=shuffle)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("net", ["", "layers"])
def test_a_lightning_module_is_calibrated_when_its_training_ends(lightning, classifier, net, tmp_path):
    callback = totalcal.integrations.lightning_callback(net=net, test=TEST, ood={"far": TEST[0] + 9})
    trainer = trained(lightning, classifier, callback, tmp_path, loader(TRAIN, True), loader(HELD_OUT))
    part = classifier.get_submodule(net)
    expected = totalcal.calibrate(part, TRAIN, HELD_OUT, progress=False).predict(TEST[0])
    found = callback.model.predict(TEST[0])
    torch.testing.assert_close(found.probabilities, expected.probabilities)
    torch.testing.assert_close(found.familiarity, expected.familiarity)
    with (Path(trainer.logger.log_dir) / "metrics.csv").open(newline="") as file:
        logged = {name: value for line in csv.DictReader(file) for name, value in line.items() if value}
    summary = callback.model.summary
    assert float(logged["totalcal/nll_before"]) == pytest.approx(summary.before["nll"])
    assert float(logged["totalcal/nll"]) == pytest.approx(summary.after["nll"])
    assert float(logged["totalcal/test OOD AUROC, far"]) > 0.95
    callback.model.save(tmp_path / "model.totalcal")
    again = totalcal.load(tmp_path / "model.totalcal", backbone=part)
    torch.testing.assert_close(again.predict(TEST[0]).probabilities, found.probabilities)


@pytest.mark.filterwarnings("ignore")
def test_without_validation_rows_lightning_is_told_to_give_some(lightning, classifier, tmp_path):
    before = classifier.layers[0].weight.detach().clone()
    with pytest.raises(InputError, match="held_out"):
        trained(lightning, classifier, totalcal.integrations.lightning_callback(), tmp_path, loader(TRAIN))
    assert torch.equal(classifier.layers[0].weight, before)  # not after hours of training


class Texts(torch.utils.data.Dataset):
    """Token ids of several lengths; the class is in the first word."""

    def __init__(self, count, seed):
        noise = torch.Generator().manual_seed(seed)
        lengths = torch.randint(4, 10, (count,), generator=noise)
        self.rows = [torch.randint(2, 40, (length,), generator=noise).tolist() for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        ids = self.rows[place]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": ids[0] % 3}


def padded(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {
        name: torch.tensor([row[name] + [0] * (longest - len(row[name])) for row in rows])
        for name in ("input_ids", "attention_mask")
    }
    return {**batch, "labels": torch.tensor([row["labels"] for row in rows])}


@pytest.fixture
def trainer_of(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra `test` brings transformers")
    pytest.importorskip("accelerate", reason="the extra `test` brings accelerate")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=40, max_position_embeddings=12, num_labels=3, **sizes)
    options = transformers.TrainingArguments(
        tmp_path, num_train_epochs=2, learning_rate=1e-2, use_cpu=True, report_to=[], save_strategy="no",
        per_device_train_batch_size=20, disable_tqdm=True,
    )  # fmt: skip
    return lambda held_out: transformers.Trainer(
        transformers.BertForSequenceClassification(config),
        options,
        data_collator=padded,
        train_dataset=Texts(120, 0),
        eval_dataset=held_out,
    )


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_hugging_face_s_trainer_is_calibrated_when_its_training_ends(trainer_of):
    trainer = trainer_of(Texts(100, 1))
    callback = totalcal.integrations.transformers_callback(trainer, classes=["a", "b", "c"])
    trainer.add_callback(callback)
    trainer.train()
    logged = next(each for each in trainer.state.log_history if "totalcal/nll" in each)
    assert logged["totalcal/nll_before"] == pytest.approx(callback.model.summary.before["nll"])
    new = padded([Texts(30, 2)[place] for place in range(30)])
    del new["labels"]
    prediction = callback.model.predict(new)
    assert set(prediction.labels) <= {"a", "b", "c"}
    assert prediction.familiarity.shape == (30,)
    assert callback.model.summary.train_rows == 120
    assert callback.model.summary.fitting_rows + callback.model.summary.promise_rows == 100


@pytest.mark.filterwarnings("ignore")
def test_held_out_rows_of_a_trainer_may_be_a_data_set_or_one_of_several_by_name(trainer_of):
    several, calibrate = (
        {"near": Texts(100, 1), "far": Texts(40, 2)},
        totalcal.integrations.transformers_callback,
    )
    found = []
    for known, given in ((several, "near"), (None, Texts(100, 1))):
        torch.manual_seed(0)
        trainer = trainer_of(known)
        trainer.add_callback(callback := calibrate(trainer, held_out=given))
        trainer.train()
        found.append(callback.model.summary.fitting_rows + callback.model.summary.promise_rows)
    assert found == [100, 100]


@pytest.mark.parametrize("known", [None, {"near": Texts(100, 1), "far": Texts(40, 2)}])
def test_without_one_set_of_held_out_rows_a_trainer_is_told_before_it_trains(trainer_of, known):
    trainer = trainer_of(known)
    trainer.add_callback(totalcal.integrations.transformers_callback(trainer))
    with pytest.raises(InputError, match="held_out"):
        trainer.train()
    assert trainer.state.global_step == 0
