"""Every backbone by its registry: shapes, last layer, parameter counts worked out by hand."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from totalcal.nets import BACKBONES, mlp, small_convnet
from totalcal_lab.backbones import lenet5, lstm, nets, resnet18

SMALL = {  # the smallest of each kind, and the shape it reads
    "mlp": ({"num_inputs": 4, "hidden": (5,)}, (4,)),
    "lenet5": ({"widths": (2, 3, 4)}, (1, 28, 28)),
    "resnet18": ({"width": 4, "stem": "cifar"}, (3, 16, 16)),
    "lstm": ({"vocabulary": 11, "embedding": 3, "hidden": 4}, (6,)),
    "small_convnet": ({"widths": (2, 3, 4)}, (1, 8, 8)),
}


def inputs_for(name: str, batch: int = 3) -> torch.Tensor:
    shape = (batch, *SMALL[name][1])
    if name == "lstm":
        return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(0))
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_every_registered_backbone_is_tried_here():
    assert {name for name, make in BACKBONES.items() if make.__module__ == nets.__name__} <= set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_it_gives_a_column_a_class_from_a_linear_layer_that_comes_last(name):
    network = BACKBONES[name](num_classes=7, **SMALL[name][0])
    assert network(inputs_for(name)).shape == (3, 7)
    last = list(network.modules())[-1]
    assert isinstance(last, nn.Linear)
    assert last.out_features == 7


@pytest.mark.parametrize("name", SMALL)
def test_two_builds_from_one_name_exchange_their_weights(name):
    one, two = (BACKBONES[name](num_classes=2, **SMALL[name][0]).eval() for _ in range(2))
    two.load_state_dict(one.state_dict())
    torch.testing.assert_close(one(inputs_for(name)), two(inputs_for(name)), rtol=0, atol=0)


@pytest.mark.parametrize("name", SMALL)
def test_many_last_layers_run_under_vmap_as_they_do_one_by_one(name):
    network = BACKBONES[name](num_classes=2, **SMALL[name][0]).eval()
    weights = torch.randn(4, *network.classes.weight.shape, generator=torch.Generator().manual_seed(1))

    inputs = inputs_for(name)

    def with_weight(weight: torch.Tensor) -> torch.Tensor:
        return functional_call(network, {"classes.weight": weight}, (inputs,))

    together = torch.vmap(with_weight)(weights)
    torch.testing.assert_close(together, torch.stack([with_weight(weight) for weight in weights]))


@pytest.mark.parametrize("name", SMALL)
def test_dropout_is_there_when_asked_and_silent_in_eval(name):
    network = BACKBONES[name](num_classes=2, dropout=0.5, **SMALL[name][0])
    assert any(isinstance(module, nn.Dropout) and module.p == 0.5 for module in network.modules())
    network.eval()
    torch.testing.assert_close(network(inputs_for(name)), network(inputs_for(name)), rtol=0, atol=0)


def test_lenet5_drops_before_both_linear_layers():
    names = [name for name, _ in lenet5(10, dropout=0.25).named_children()]
    assert names[names.index("linear1") - 1] == "dropout1"
    assert names[names.index("classes") - 1] == "dropout2"


@pytest.mark.parametrize("name", ["lenet5", "resnet18"])
def test_a_net_with_own_scale_sees_neither_brightness_nor_contrast(name):
    plain, own = (BACKBONES[name](5, **SMALL[name][0], per_image_scaling=own).eval() for own in (False, True))
    own.load_state_dict(plain.state_dict())  # it has no weights of its own
    images = inputs_for(name)
    factor, shift = torch.tensor([0.2, 1.0, 3.0]), torch.tensor([-2.0, 0.5, 4.0])
    changed = images * factor.view(3, 1, 1, 1) + shift.view(3, 1, 1, 1)
    deviation, mean = torch.std_mean(images, (1, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(own(images), plain((images - mean) / deviation), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(own(changed), own(images), rtol=1e-3, atol=1e-4)
    assert own(torch.ones_like(images)).isfinite().all()  # an image of one colour has no deviation


def test_lenet5_for_fashion_has_the_parameters_counted_by_hand():
    assert count(lenet5(10)) == (25 * 20 + 20) + (25 * 20 * 50 + 50) + (16 * 50 * 500 + 500) + (500 * 10 + 10)


def test_lenet5_for_cifar_has_the_parameters_counted_by_hand():
    convolutions = (3 * 25 * 192 + 192) + (192 * 25 * 192 + 192)
    linear = (25 * 192 * 1000 + 1000) + (1000 * 10 + 10)
    assert count(lenet5(10, image=(3, 32, 32))) == convolutions + linear


def test_lenet5_refuses_pictures_too_small_for_it():
    with pytest.raises(ValueError, match="16 pixels"):
        lenet5(10, image=(1, 8, 8))


def test_pooling_before_the_relu_is_the_same_function():
    network = lenet5(10, widths=(2, 3, 4))
    picture = inputs_for("lenet5")
    usual = network.conv1(picture).relu()
    torch.testing.assert_close(
        network.relu1(network.pool1(network.conv1(picture))), network.pool1(usual), rtol=0, atol=0
    )


def test_resnet18_has_the_published_number_of_parameters():
    assert count(resnet18(1000)) == 11_689_512


def test_resnet18_stems_differ_by_their_kernel_alone():
    assert count(resnet18(100, stem="authors")) == count(resnet18(100))
    assert count(resnet18(100)) - count(resnet18(100, stem="cifar")) == 64 * 3 * (49 - 9)


@pytest.mark.parametrize(("stem", "side"), [("imagenet", 8), ("authors", 16), ("cifar", 32)])
def test_stems_leave_so_many_pixels_of_32(stem, side):
    assert resnet18(10, stem=stem, width=2).stem(torch.zeros(1, 3, 32, 32)).shape[-1] == side


def test_resnet18_refuses_an_unknown_stem():
    with pytest.raises(ValueError, match="imagenet, authors, cifar"):
        resnet18(10, stem="patchify")


def test_lstm_has_the_parameters_counted_by_hand():
    first, second = 4 * 256 * (64 + 256 + 2), 4 * 256 * (256 + 256 + 2)
    assert count(lstm(2)) == 1001 * 64 + first + second + (256 * 2 + 2)


def test_lstm_padding_carries_no_embedding_and_takes_no_gradient():
    network = lstm(2, vocabulary=11, embedding=3, hidden=4)
    network(torch.zeros(2, 5, dtype=torch.int64)).sum().backward()
    assert not network.embedding.weight[0].any()
    assert not network.embedding.weight.grad[0].any()


def test_perceptron_of_the_iris_toy_has_two_hidden_layers_of_32():
    assert count(mlp(2, 3, hidden=(32, 32))) == (2 * 32 + 32) + (32 * 32 + 32) + (32 * 3 + 3)


def test_small_convnet_has_the_parameters_counted_by_hand():
    assert count(small_convnet(10)) == (9 * 16 + 16) + (9 * 16 * 32 + 32) + (4 * 32 * 64 + 64) + (
        64 * 10 + 10
    )


def test_channels_last_changes_the_layout_and_not_the_answer():
    network, picture = lenet5(10, widths=(2, 3, 4)), inputs_for("lenet5")
    usual = network(picture)
    other = network.to(memory_format=torch.channels_last)(
        picture.contiguous(memory_format=torch.channels_last)
    )
    torch.testing.assert_close(other, usual, rtol=1e-5, atol=1e-6)
