"""The assembly: the free energy it minimises, and what ten draws cost."""

import copy

import pytest
import torch
from torch import Tensor, nn

from totalcal import Batch, TuringProcess, anp, bnn, etp, softmax
from totalcal.errors import ContextError, InputError
from totalcal.parts.sampling import stochastic_layers


class Counting(nn.Module):
    """Counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return inputs


class Residual(nn.Module):
    """A net with a link around its stochastic layer."""

    def __init__(self) -> None:
        super().__init__()
        self.counting, self.first, self.last = Counting(), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.counting(inputs)
        return self.last(hidden + torch.relu(self.first(hidden)))


class Recurrent(nn.Module):
    """An LSTM under a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.last, self.counting = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3), Counting()

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.lstm(inputs.view(-1, 1, 4).expand(-1, 5, -1))
        return self.last(self.counting(states[:, -1]))


class Branching(nn.Module):
    """A net that vmap refuses: Python control flow on a drawn value."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        return self.last(hidden if hidden.sum() > 0 else -hidden)


@pytest.mark.parametrize("backbone", [Residual(), Recurrent()])
def test_ten_draws_run_what_is_deterministic_once(backbone: nn.Module) -> None:
    model = etp(backbone, num_classes=3)
    model.predict(torch.randn(5, 4), draws=10)
    model.backbone.counting.calls = 0
    assert model.predict(torch.randn(5, 4), draws=10).draws == 10
    assert model.backbone.counting.calls == 1


def test_vectorised_draws_have_the_moments_of_single_ones() -> None:
    torch.manual_seed(0)
    model, inputs = bnn(Residual(), num_classes=3), torch.randn(2, 4)
    for layer in stochastic_layers(model.backbone):
        layer.weight_log_variance.data.fill_(-3.0)
    together = model.predict(inputs, draws=4000).belief.log_mean
    single = torch.stack([model.encode(inputs).log_softmax(-1) for _ in range(4000)]).double()
    torch.testing.assert_close(together.mean(0), single.mean(0), rtol=0.05, atol=0.05)
    torch.testing.assert_close(together.std(0), single.std(0), rtol=0.07, atol=0.0)


def test_a_net_that_cannot_be_vectorised_is_run_draw_by_draw() -> None:
    model = bnn(Branching(), num_classes=3)
    first, second = (model.predict(torch.randn(1, 4).fill_(0.3), seed=0) for _ in range(2))
    assert first.draws == 10
    assert torch.equal(first.belief.mean, second.belief.mean)


def test_batch_normalisation_in_training_mode_still_predicts() -> None:
    model = bnn(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), num_classes=3).train()
    assert model.predict(torch.randn(6, 4)).draws == 10


def test_the_free_energy_agrees_with_a_monte_carlo_estimate_of_the_paper_s_bound() -> None:
    """E_q(w) p(Z) q(π) [−log p(y|π) + log q(π)/p(π)] + KL(q(w)‖p(w)) / N, by draws of w, Z and π."""
    torch.manual_seed(0)
    model = etp(nn.Linear(2, 3), num_classes=3, num_cells=2, local_kl_scale=1.0, weight_kl_scale=1.0)
    model.backbone.weight_log_variance.data.fill_(-3.0)
    inputs, labels = torch.randn(1, 2).expand(64, -1), torch.ones(64, dtype=torch.int64)
    losses = [model.loss_terms(model.encode(inputs), labels).total(examples=1) for _ in range(400)]
    expected = _bound_by_draws(model, inputs[:1], label=1, draws=100_000)
    torch.testing.assert_close(torch.stack(losses).mean(), expected, rtol=0.02, atol=0.0)


@torch.no_grad()
def _bound_by_draws(model: TuringProcess, inputs: Tensor, label: int, draws: int) -> Tensor:
    layer, memory, shape = model.backbone, model.latent, torch.Size([draws])
    posterior = torch.distributions.Normal(layer.weight_mean, (0.5 * layer.weight_log_variance).exp())
    weight_kl = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 10**-0.5)).sum()
    v = inputs @ posterior.sample(shape).transpose(1, 2) + layer.bias  # [draws, 1, classes]
    cells = torch.distributions.Normal(memory.cells, memory.cell_variance**0.5).sample(shape)
    a = nn.functional.scaled_dot_product_attention(v, memory.key_map.linear(cells), cells)
    h = model.head.evidence_map.linear(torch.cat([v, a], -1))
    q, p = (torch.distributions.Dirichlet(x.double().exp()) for x in (h, a))
    pi = q.sample().clamp_min(1e-300)
    terms = -pi[..., label].log() + q.log_prob(pi) - p.log_prob(pi)
    return terms.mean() + weight_kl


def test_a_memory_goes_on_learning_after_training_in_blocks() -> None:
    torch.manual_seed(0)
    model, inputs, labels = etp(nn.Linear(4, 3), num_classes=3), torch.randn(9000, 4), torch.arange(9000) % 3
    at_once = copy.deepcopy(model)
    update = model.absorb_context(inputs, labels)
    at_once.absorb_context(inputs, labels, block=9000)
    assert update.distances.shape == (20,)
    assert update.mean > 0
    assert model.latent.cells.max() < 0.7
    assert at_once.latent.cells.max() > 0.99  # one long sum saturates the cells


def test_a_given_context_travels_with_the_model() -> None:
    model = anp(nn.Linear(4, 3), num_classes=3)
    context = Batch(torch.randn(6, 4), torch.randint(3, (6,)))
    inputs = torch.randn(2, 4)
    by_hand = model.predict(inputs, context=context, seed=0)
    carried = model.given(context).predict(inputs, seed=0)
    assert torch.equal(by_hand.probabilities, carried.probabilities)


def test_a_context_is_kept_as_labelled_rows_and_refused_without_labels_before_any_prediction():
    model = anp(nn.Linear(4, 3), 3)
    labels = torch.tensor([0, 1, 2])
    assert torch.equal(model.given((torch.zeros(3, 4), labels)).context.labels, labels)
    with pytest.raises(ContextError, match="a context needs labels"):
        model.given({"points": torch.zeros(3, 4)})


def test_a_write_that_is_not_finite_is_refused_whole() -> None:
    torch.manual_seed(0)
    model, inputs, labels = etp(nn.Linear(4, 3), num_classes=3), torch.randn(120, 4), torch.arange(120) % 3
    inputs[110] = 3e38  # the blocks before it are sound
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match="the memory stays as it was"):
        model.absorb_context(inputs, labels)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.predict(inputs[:5]).probabilities.isfinite().all()


def test_an_outlier_is_refused_in_words_and_the_rows_beside_it_are_predicted() -> None:
    net, inputs = nn.Linear(4, 3), torch.randn(6, 4)
    net.weight.data.mul_(100)
    model = etp(net, num_classes=3)
    inputs[2] = 3e38
    with pytest.raises(InputError, match=r"not finite.*row 2"):
        model.predict(inputs)
    assert model.predict(inputs[:2]).probabilities.isfinite().all()


def test_a_net_that_masks_a_class_is_no_overflow() -> None:
    class Masked(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows).masked_fill(torch.tensor([False, True, False]), -torch.inf)

    found = softmax(Masked(4, 3), num_classes=3).predict(torch.randn(5, 4)).probabilities
    assert torch.equal(found[:, 1], torch.zeros(5, dtype=found.dtype))


def test_whole_numbers_that_a_net_does_not_take_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"does not take torch.uint8 .*inputs.float\(\)"):
        softmax(nn.Linear(4, 3), num_classes=3).predict(torch.zeros(5, 4, dtype=torch.uint8))
