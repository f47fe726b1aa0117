"""The nets that people have, and the calls they would make: Hugging Face, Lightning, a ResNet-50."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import totalcal


def rounds_of_calls(net, train, held_out, test, others, path, again):
    """Calibrate, predict, evaluate, report and file; `again` builds a net as `net` was built."""
    model = totalcal.calibrate(net, train, held_out, progress=False)
    prediction = model.predict(test[0])
    assert len(prediction.labels) == len(test[1])
    assert (prediction.familiarity > 0).all()
    assert "NLL" in model.report(test, {"others": others}).verdict
    model.save(path)
    saved = totalcal.load(path, backbone=again())
    torch.testing.assert_close(saved.predict(test[0]).probabilities, prediction.probabilities)
    torch.testing.assert_close(saved.predict(test[0]).familiarity, prediction.familiarity)
    assert saved.predict(test[0]).decision == prediction.decision
    return totalcal.evaluate(model.process, test, {"others": others}, uncertainty="unfamiliarity")


def test_a_classifier_of_hugging_face_is_a_net_as_it_is(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra `test` brings transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=60, max_position_embeddings=16, num_labels=3, **sizes)
    torch.manual_seed(0)
    net = transformers.BertForSequenceClassification(config).eval()

    def texts(rows, words=range(1, 60)):
        lengths = torch.randint(4, 13, (rows, 1))
        mask = (torch.arange(12) < lengths).long()
        ids = torch.randint(min(words), max(words), (rows, 12)) * mask
        return transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask}), ids[:, 0] % 3

    train, held_out, test = texts(200, range(1, 30)), texts(100, range(1, 30)), texts(60, range(1, 30))
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(30):  # stands for the Trainer
        optimizer.zero_grad()
        net(**train[0], labels=train[1]).loss.backward()
        optimizer.step()
    verdict = rounds_of_calls(
        net,
        train,
        held_out,
        test,
        texts(60, range(30, 60))[0],
        tmp_path / "texts.totalcal",
        lambda: transformers.BertForSequenceClassification(config),
    )
    assert verdict.auroc > 0.9  # words that it has never read

    for make in (totalcal.etp, totalcal.bnn):  # or trained as one of the family
        model = make(net, num_classes=3, layers="*.classifier")
        totalcal.fit(model, train, epochs=1, freeze_backbone=True, progress=False)
        assert totalcal.evaluate(model, test).examples == 60


@pytest.mark.parametrize("name", ["etp", "bnn"])
def test_a_vision_transformer_of_hugging_face_is_a_net_as_it_is(name):
    transformers = pytest.importorskip("transformers", reason="the extra `test` brings transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **sizes)
    torch.manual_seed(0)
    model = getattr(totalcal, name)(transformers.ViTForImageClassification(config), num_classes=3)
    pictures, labels = torch.randn(60, 3, 8, 8), torch.arange(60) % 3
    data = {"pixel_values": pictures, "labels": labels}  # as the Trainer's batches are
    totalcal.fit(model, data, epochs=1, progress=False)
    totalcal.remember(model, data, data)
    by_name, alone = (model.predict(rows) for rows in ({"pixel_values": pictures}, pictures))
    assert torch.equal(by_name.probabilities, alone.probabilities)
    assert by_name.familiarity.shape == (60,)


def test_a_module_of_lightning_trains_a_model_of_ours(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning", reason="the extra `test` brings pytorch-lightning")

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = totalcal.etp(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), 3)

        def training_step(self, batch, index):
            inputs, labels = batch
            terms, _ = self.model.step(inputs, labels, context=16)
            return terms.total(examples=300)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-2)

    lightning.seed_everything(0, verbose=False)
    inputs = torch.randn(460, 4)
    labels = inputs[:, :3].argmax(1)
    train, held_out, test = (
        (inputs[rows], labels[rows]) for rows in (slice(300), slice(300, 400), slice(400, 460))
    )
    module = Classifier()
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, DataLoader(TensorDataset(*train), batch_size=50, shuffle=True))
    model = module.model.eval()
    totalcal.remember(model, train, held_out, progress=False)
    verdict = totalcal.evaluate(model, test, {"far": inputs[:50] + 10}, uncertainty="unfamiliarity")
    assert verdict.error < 0.3
    assert verdict.auroc > 0.95


class Bottleneck(nn.Module):
    """As in torchvision: 1 × 1, 3 × 3, 1 × 1, and the input beside them."""

    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = self.expansion * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu, self.downsample = nn.ReLU(inplace=True), None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        beside = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + beside)


class ResNet50(nn.Module):
    """torchvision's, layer by layer: 25,557,032 weights."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            width = 64 * 2**stage
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width, 2 if stage and not block else 1))
                inputs = width * Bottleneck.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


@pytest.mark.exhaustive
def test_a_resnet_50_of_a_thousand_classes_is_a_net_as_it_is(tmp_path):
    torch.manual_seed(0)
    net = ResNet50()
    assert sum(weight.numel() for weight in net.parameters()) == 25_557_032

    def smooth(rows):
        return F.interpolate(torch.randn(rows, 3, 4, 4), 32, mode="bilinear")

    with torch.no_grad():  # in the place of training: statistics of the pictures, and logits that differ
        net.train()(smooth(50))
        net.fc.weight.mul_(50)
    net.eval()

    @torch.no_grad()
    def pictures(rows):
        """Labelled as the net says, with some mistakes."""
        inputs = smooth(rows)
        return inputs, net(inputs).argmax(1).where(torch.rand(rows) < 0.8, torch.randint(1000, (rows,)))

    statistics = net.layer4[2].bn3.running_mean.clone()
    verdict = rounds_of_calls(
        net,
        pictures(100),
        pictures(90),
        pictures(40),
        torch.randn(40, 3, 32, 32),
        1000,
        tmp_path / "resnet.totalcal",
        ResNet50,
    )
    assert verdict.auroc > 0.9
    assert torch.equal(net.layer4[2].bn3.running_mean, statistics)
