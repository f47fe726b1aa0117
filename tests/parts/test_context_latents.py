"""The latents of neural processes."""

import torch

from totalcal.parts.latents import SetLatent, TargetLatent
from totalcal.parts.sampling import Noise
from totalcal.types import Batch, ContextUse


def seeded(seed: int = 0) -> Noise:
    return Noise(torch.Generator().manual_seed(seed))


def example(rows: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(rows, 3, generator=generator), torch.randint(3, (rows,), generator=generator)


def test_a_set_has_one_latent_for_all_of_its_rows() -> None:
    readout, kl = SetLatent(3).infer(*example(), 4, seeded())
    assert readout.shape == (10, 32)
    assert (readout == readout[0]).all()
    assert kl > 0


def test_permuting_the_set_leaves_its_law_alone() -> None:
    latent, (embedding, labels) = SetLatent(3), example()
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    original = latent.distribution(latent.encoder(embedding, labels).mean(0))
    shuffled = latent.distribution(latent.encoder(embedding[order], labels[order]).mean(0))
    torch.testing.assert_close(original, shuffled)


def test_half_of_the_steps_have_the_empty_context_s_prior() -> None:
    latent, (embedding, labels) = SetLatent(3), example()
    empty = latent.infer(embedding, labels, 0, seeded())[1]
    kls = torch.stack([latent.infer(embedding, labels, 5, seeded(seed))[1] for seed in range(200)])
    share = torch.isclose(kls, empty).float().mean()
    assert 0.35 < share < 0.65


def test_the_kl_of_the_whole_set_as_its_own_context_vanishes_in_the_other_half() -> None:
    latent, (embedding, labels) = SetLatent(3), example()
    kls = torch.stack([latent.infer(embedding, labels, 10, seeded(seed))[1] for seed in range(20)])
    assert kls.min() < 1e-6


def test_a_target_s_latent_leaves_out_the_context_rows() -> None:
    latent = TargetLatent(3, 1.0, 0.1, ContextUse.NONE)
    readout, kl = latent.infer(*example(), 4, seeded())
    assert readout.shape == (6, 32)
    assert kl > 0


def test_without_a_context_the_latent_is_its_prior() -> None:
    latent, (embedding, labels) = TargetLatent(3, 1.0, 0.25, ContextUse.NONE), example()
    _, kl = latent.infer(embedding, labels, 0, seeded())
    draws = latent.draw(embedding[None], None, 4000, seeded())
    assert kl.abs() < 1e-6
    torch.testing.assert_close(draws.mean(0), torch.ones(10, 32), rtol=0, atol=0.05)
    torch.testing.assert_close(draws.std(0), torch.full((10, 32), 0.5), rtol=0.1, atol=0)


def test_permuting_the_context_leaves_a_target_s_law_alone() -> None:
    latent, (embedding, labels) = TargetLatent(3, 0.0, 1.0, ContextUse.REQUIRED), example()
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    targets, context = embedding[None, 6:], Batch(embedding[None, :6], labels[:6])
    shuffled = Batch(context.inputs[:, order], context.labels[order])
    original = latent.draw(targets, context, 3, seeded())
    torch.testing.assert_close(latent.draw(targets, shuffled, 3, seeded()), original)
