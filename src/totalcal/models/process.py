"""The Turing Process: the only assembly. Every model is this class with other parts in its slots."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from totalcal.calibration.calibrator import NoCalibrator
from totalcal.errors import ContextError, InputError, ShapeError
from totalcal.functional.decomposition import categorical_entropy, log_joint
from totalcal.inputs import (
    Inputs,
    as_inputs,
    blocks,
    call,
    can_be_joined,
    check_embedding,
    check_labels,
    check_predicted,
    checked_inputs,
    count,
    device,
    in_precision_of,
    in_types_of,
    joined,
    labelled,
    tensors,
    types_in_words,
)
from totalcal.memory.domain import Domain, Memorised, NoDomain, Observation, Observed, row_keys
from totalcal.memory.features import Collector, Tap, tap
from totalcal.models.evaluating import evaluating
from totalcal.parts.heads import Head
from totalcal.parts.latents import Latent
from totalcal.parts.moments import NoMomentRuleError, moments_supported, points_and_mean, readout_points
from totalcal.parts.pooling import quick_pooling
from totalcal.parts.repeating import fixed_draws, repeated_and_mean
from totalcal.parts.sampling import (
    FixedDraws,
    Noise,
    Pass,
    Sharing,
    WeightKLs,
    sampling,
    stochastic_layers,
    with_uses_known,
)
from totalcal.parts.weights import point_layers, total_weight_kl
from totalcal.types import (
    BY_MOMENTS,
    DETERMINISTIC,
    Batch,
    Belief,
    ContextUse,
    Dirichlet,
    Draws,
    LossTerms,
    LossWeights,
    MemoryUpdate,
    PointMass,
    Predictive,
    Sampling,
)

CONTEXT_BLOCK = 50
_TEN = 10
HeadLoss = Callable[[Head, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a head, embeddings, readouts and labels to the expected NLL and the local KL, as `Head.loss`."""


Context: TypeAlias = Batch | tuple[Any, Any] | Mapping[str, Any]
"""Labelled rows: a pair, or a mapping with `labels`."""


class MomentsWarning(UserWarning):
    """Moments were asked for, and draws were made."""


class TuringProcess(nn.Module):
    """Any model of ours: backbone (w), latent (Z) and head (π), as in Definition 1 (section 5). Final.

    A process owns its backbone: it takes a copy of the net it is given, which is left alone and shares
    nothing with it. Train `process.parameters()`, and find the trained net in `process.backbone`.

    A training step in anybody's own loop is `encode`, `absorb`, `loss_terms`, or `forward` for all three.
    Randomness comes from the generator given, down to the layers of the backbone; without one, from
    torch's global one. Predictions are made as in evaluation mode, and many threads may make them at once.
    Inputs are what the net takes: a tensor or an array, or a mapping or tuple of them (`totalcal.inputs`).
    """

    def __init__(
        self,
        backbone: nn.Module,
        latent: Latent,
        head: Head,
        num_classes: int,
        loss_weights: LossWeights,
        domain: Domain | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2:
            raise InputError(f"a classifier needs num_classes ≥ 2, but got {num_classes}.")
        if min(loss_weights) < 0:
            raise InputError(f"what a KL counts must be 0 or more, but got {loss_weights}.")
        self.backbone, self.latent, self.head = _owned(backbone), latent, head
        self.net_classes, self.loss_weights = num_classes, loss_weights
        self.calibrator: nn.Module = NoCalibrator()
        self.domain: Domain
        self.set_domain(NoDomain() if domain is None else domain)

    def set_domain(self, domain: Domain) -> None:
        """Fill the slot for the domain; the layers that it reads are tapped, no others."""
        tap(self.backbone, domain.taps)
        self.domain = domain

    @property
    def num_classes(self) -> int:
        """How many classes predictions have: those of the net, `net_classes`, and those memorised since."""
        return self.net_classes + self.domain.num_learned

    @property
    def context_use(self) -> ContextUse:
        """Whether predictions take a context."""
        return self.latent.context_use

    @property
    def point_layers(self) -> dict[str, str]:
        """The modules of the backbone whose weights are points, each with the reason in words."""
        return point_layers(self.backbone)

    def encode(self, inputs: Inputs, generator: torch.Generator | None = None) -> Tensor:
        """v_w(x) with a draw of the weights: one pass through the backbone.

        Args:
            inputs: What the net takes; the first axis is the batch.
            generator: Where the draw comes from; torch's global generator without one.

        Returns:
            The embedding, batch × classes.

        Raises:
            InputError: If inputs are not finite, or there are none.
            ShapeError: If the net does not give one column per class.

        Example:
            >>> import totalcal
            >>> totalcal.etp(nn.Linear(4, 3), num_classes=3).encode(torch.zeros(2, 4)).shape
            torch.Size([2, 3])
        """
        return self._encode(inputs, generator, with_kls=False)[0]

    @torch.no_grad()
    def absorb(
        self, embedding: Tensor, labels: Tensor, generator: torch.Generator | None = None
    ) -> MemoryUpdate:
        """M ← E_Z[r(Z, D_C)]: write a context to the memory as one sum; nothing for a model without.

        An empty context changes nothing.

        Args:
            embedding: Of the context, as `encode` gives it.
            labels: Its class numbers.
            generator: Where the draws of Z come from; the memory's own without one, which all ranks of a
                data-parallel run have in common.

        Returns:
            How far each cell moved.

        Raises:
            InputError: If the write would not be finite; the memory stays as it was.
            LabelError: If a label is not a class.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3, num_cells=5)
            >>> model.absorb(model.encode(torch.zeros(2, 4)), torch.tensor([0, 2])).distances.shape
            torch.Size([5])
        """
        with self._written_whole():
            movement = self._absorb(embedding, labels, generator)
            if not bool(movement.distances.sum().isfinite()):
                raise InputError(
                    "this context would write numbers that are not finite: the memory stays as it was. Its "
                    f"embedding reaches {float(embedding.abs().max()):.3g}: scale the rows as in training, "
                    "or drop them."
                )
            return movement

    def _absorb(self, embedding: Tensor, labels: Tensor, generator: torch.Generator | None) -> MemoryUpdate:
        check_labels(labels, len(embedding), self.net_classes)
        if len(embedding) == 0 and not _distributed():
            return MemoryUpdate(embedding.new_zeros(0))
        return self.latent.absorb(embedding, labels, Noise(generator))

    @contextmanager
    def _written_whole(self) -> Iterator[None]:
        """Writes within this context are kept if all of them succeed, and else none of them."""
        before = {name: value.clone() for name, value in self.latent.state_dict().items()}
        try:
            yield
        except BaseException:
            self.latent.load_state_dict(before)
            raise

    @torch.no_grad()
    def absorb_context(
        self,
        inputs: Inputs,
        labels: Tensor,
        block: int = CONTEXT_BLOCK,
        generator: torch.Generator | None = None,
    ) -> MemoryUpdate:
        """Absorb a context of any length, also after training: in blocks, as a long sum saturates cells.

        This writes the paper's cells. What a model learns in service is `memorise`.

        Args:
            inputs: The context.
            labels: Its class numbers.
            block: How many rows are written at once.
            generator: As in `absorb`.

        Returns:
            How far each cell moved, summed over blocks.

        Raises:
            InputError, ShapeError, LabelError: As in `encode` and `absorb`; no block is written then.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3, num_cells=5)
            >>> model.absorb_context(torch.randn(100, 4), torch.arange(100) % 3).distances.shape
            torch.Size([5])
        """
        parts = zip(blocks(as_inputs(inputs), block), labels.split(block), strict=True) if len(labels) else ()
        with self._written_whole():
            moves = [self.absorb(self.encode(x, generator), y, generator).distances for x, y in parts]
        return MemoryUpdate(torch.stack(moves).sum(0) if moves else torch.zeros(0))

    @torch.no_grad()
    def memorise(
        self, inputs: Inputs, labels: Tensor, name: str | None = None, *, batch_size: int = 256
    ) -> Memorised:
        """Learn from labelled rows without training: new classes, or known ones in a new domain.

        Labels from `num_classes` on are new classes, which predictions have columns for from now on; the
        answers among the net's own classes change by one factor. Rows of known classes become familiar.

        Args:
            inputs: What the net takes.
            labels: Their class numbers.
            name: What `forget` will drop them by; made of the classes if not given.
            batch_size: How many rows pass at once.

        Returns:
            What was learned and what is promised of it; print it.

        Raises:
            DomainError: The model has no memory (`totalcal.remember`).
            InputError, LabelError: There are too few rows, the name is taken, labels leave a gap, or the rows
                of a class cannot be told from those of another; the model is as it was.

        Example:
            >>> import totalcal
            >>> rows, labels = torch.randn(300, 4), torch.arange(300) % 3
            >>> rows[:, :3] += 5 * torch.eye(3)[labels]
            >>> model = totalcal.softmax(nn.Linear(4, 3), num_classes=3)
            >>> memory = totalcal.remember(model, (rows[:200], labels[:200]), (rows[200:], labels[200:]))
            >>> learned = model.memorise(torch.randn(50, 4) - 5, torch.full((50,), 3), name="new")
            >>> model.num_classes, model.predict(torch.full((1, 4), -5.0)).probabilities.argmax().item()
            (4, 3)
            >>> model.forget("new")
            (3,)
        """
        inputs = as_inputs(inputs)
        check_labels(labels, count(inputs), self.num_classes + len(labels))
        if not len(labels) or not self.domain.taps:
            return self.domain.memorise((), name)
        parts = zip(blocks(inputs, batch_size), labels.split(batch_size), strict=True)
        return self.domain.memorise(
            [Observed(self.observe(x, self.domain.taps), y, row_keys(x)) for x, y in parts], name
        )

    def forget(self, name: str) -> tuple[int, ...]:
        """Drop what was memorised under a name: the model is as if it had never been.

        Args:
            name: As in `memorise`.

        Returns:
            The numbers of the classes that are gone; those behind them move down.

        Raises:
            UnknownNameError: Nothing has this name.
            DomainError: The model has no memory.
        """
        return self.domain.forget(name)

    def loss_terms(
        self, embedding: Tensor, labels: Tensor, context: int = 0, generator: torch.Generator | None = None
    ) -> LossTerms:
        """The free energy in parts. Changes no state.

        Args:
            embedding: Of a batch, as `encode` gives it.
            labels: Its class numbers.
            context: How many of its first rows are the context.
            generator: Where the draw of Z comes from; torch's global generator without one.

        Returns:
            The terms; `total(examples)` is the loss per example.

        Raises:
            ContextError: If the batch has fewer rows than the context, or none beside it where the loss
                needs some.
            LabelError, ShapeError: If labels do not fit the embedding.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3)
            >>> embedding = model.encode(torch.zeros(2, 4))
            >>> bool(model.loss_terms(embedding, torch.tensor([0, 2])).total(examples=100) > 0)
            True
        """
        return self._loss_terms(embedding, labels, context, generator, None)

    def forward(
        self, inputs: Inputs, labels: Tensor, context: int = 0, generator: torch.Generator | None = None
    ) -> LossTerms:
        """A training step's pass in one call: encode, absorb the first `context` rows, loss terms."""
        return self.step(inputs, labels, context, generator)[0]

    def step(
        self,
        inputs: Inputs,
        labels: Tensor,
        context: int = 0,
        generator: torch.Generator | None = None,
        write_generator: torch.Generator | None = None,
        write_first: bool = True,
        head_loss: HeadLoss | None = None,
    ) -> tuple[LossTerms, MemoryUpdate]:
        """`forward`, with how far the write moved the memory; the write may come after the loss terms.

        Cheaper than the three calls it is made of: layers work out the KL of their weights with the pass.

        Args:
            inputs: A batch; its first `context` rows are written to the memory.
            labels: The class of each row.
            context: How many rows are the context.
            generator: What the pass draws from.
            write_generator: What the write draws from; without one, the memory's own generator.
            write_first: Whether the memory is written before the loss is computed.
            head_loss: In place of the head's own, where labels alone do not say what is to be learnt.

        Returns:
            The terms of the free energy, and how far the write moved the memory.

        Raises:
            ContextError: The context is longer than the batch.
        """
        embedding, kls = self._encode(inputs, generator, with_kls=True)
        _check_context_length(context, len(embedding))
        rows = embedding[:context].detach(), labels[:context]
        if write_first:
            movement = self._absorb(*rows, write_generator)
            return self._loss_terms(embedding, labels, context, generator, kls, head_loss), movement
        terms = self._loss_terms(embedding, labels, context, generator, kls, head_loss)
        return terms, self._absorb(*rows, write_generator)

    @torch.no_grad()
    def predict(
        self,
        inputs: Inputs,
        draws: Draws = 10,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Predictive:
        """The predictive distribution, with so many draws of θ = (w, Z); 0 uses mean weights and mean cells.

        What is deterministic runs once, however many draws there are. From three draws on they come in pairs
        of opposite noise. "moments" draws nothing (`predict_moments`); where a layer has no rule for it, a
        warning names the layer, and ten draws are made that all rows share.

        Args:
            inputs: What the net takes; the first axis is the batch.
            draws: How many, 0, or "moments".
            context: Labelled rows to predict from, for the models that take a context.
            generator: Where the draws come from; torch's global generator without one.

        Returns:
            Beliefs, draws × batch × classes, with `probabilities`, `entropy` and `decompose()`.

        Raises:
            InputError: If inputs are not finite, or there are none.
            ShapeError: If the net does not give one column per class.
            ContextError: If the model needs a context and has none, or takes none and was given one.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3)
            >>> model.predict(torch.zeros(2, 4), draws=5).draws
            5
        """
        if draws == "moments":
            return self._moments_or_draws(inputs, context)
        noise = _noise_for(draws, Sharing.ROWS, generator, paired=True)
        return self._predicted(inputs, draws, context, noise, self._sampling(draws))

    @torch.no_grad()
    def predict_shared(
        self, inputs: Inputs, draws: Draws | None = None, context: Context | None = None, seed: int = 0
    ) -> Predictive:
        """`predict`, but all rows meet the same draws, those of the seed, however batches are split.

        This is how files, estimators and services predict. Draws cost more here: the layers whose weights
        have a distribution run with weights of their own for each of them.

        Args:
            inputs: As in `predict`.
            draws: As in `predict`; `default_draws` if not given.
            context: As in `predict`.
            seed: What the draws are a function of.

        Returns:
            As `predict`; the same for equal rows, in any order and batch.

        Raises:
            InputError, ShapeError, ContextError: As in `predict`.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3)
            >>> found = model.predict_shared(torch.zeros(2, 4)).probabilities
            >>> torch.allclose(found[0], found[1])
            True
        """
        if draws is None:
            draws = self.default_draws
        if draws == "moments":
            return self._moments_or_draws(inputs, context)
        inputs = as_inputs(inputs)
        noise = self._shared_noise(inputs, draws, seed)
        return self._predicted(inputs, draws, context, noise, self._sampling(draws, seed))

    @property
    def default_draws(self) -> Draws:
        """Moments where they are known to be at least as good as ten draws, and ten elsewhere.

        Example:
            >>> import totalcal
            >>> net = nn.Linear(4, 3)
            >>> totalcal.etp(net, num_classes=3).default_draws, totalcal.anp(net, num_classes=3).default_draws
            ('moments', 10)
        """
        return "moments" if moments_supported(self.backbone, self.latent, self.net_classes) else _TEN

    @torch.no_grad()
    def fixed_draws(
        self, inputs: Inputs, draws: int = 10, context: Context | None = None, seed: int = 0
    ) -> FixedDraws:
        """The draws of `predict_shared`, for `predict_fixed`; any rows will do as inputs."""
        rows, context = self._received(inputs), self._checked_context(context)
        if context is not None:
            rows = _joined(self._received(context.inputs), rows)
        noise = self._shared_noise(rows, draws, seed)
        with evaluating(self):
            return fixed_draws(self.backbone, rows, draws, noise, seed)

    @torch.no_grad()
    def predict_fixed(self, inputs: Inputs, draws: FixedDraws, context: Context | None = None) -> Predictive:
        """`predict_shared` without a random number: an exported program is made of this."""
        noise = self._shared_noise(as_inputs(inputs), draws.count, draws.seed)._replace(fixed=draws.rewound())
        return self._predicted(inputs, draws.count, context, noise, self._sampling(draws.count, draws.seed))

    def predict_moments(self, inputs: Inputs, context: Context | None = None) -> Predictive:
        """One pass without draws: moments go through the backbone, and fixed points through latent and head.

        The same for any batch, every time, up to rounding; gradients flow.

        Raises:
            NoMomentRuleError: A layer of the backbone has no rule (`parts.moments.moment_rule`).
        """
        return self._predicted(inputs, 0, context, None, BY_MOMENTS if self._is_random() else DETERMINISTIC)

    @torch.no_grad()
    def log_joint(
        self,
        inputs: Inputs,
        labels: Tensor,
        draws: int = 100,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """log p_M(Y) = log E_θ Π p(y_i | x_i, θ), Definition 1: all rows share the noise of a draw.

        Draws are independent here: a product of many labels is not a monotone function of the noise, and
        pairs of opposite noise need not help.

        Args:
            inputs: As in `predict`.
            labels: One class number per row.
            draws: How many draws of θ.
            context: As in `predict`.
            generator: As in `predict`.

        Returns:
            One number: the log-probability of all labels together.

        Raises:
            InputError, ShapeError, ContextError: As in `predict`.
            LabelError: If a label is not a class.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3)
            >>> bool(model.log_joint(torch.zeros(2, 4), torch.tensor([0, 2])) < 0)
            True
        """
        inputs = as_inputs(inputs)
        check_labels(labels, count(inputs), self.num_classes)
        rows, noise = self._checked_context(context), _noise_for(draws, Sharing.SHARED, generator)
        belief, _ = self.domain.judge(*self._beliefs(inputs, draws, rows, noise, self.domain.taps))
        places = torch.arange(len(labels), device=labels.device)
        return log_joint(belief.log_mean[:, places, labels])

    def given(self, context: Context) -> "GivenContext":
        """A predictor that brings its context along.

        Args:
            context: Labelled rows, as `predict` takes them.

        Returns:
            A predictor with `predict(inputs, draws, generator=…)`.

        Raises:
            ContextError: If the context has no labels.

        Example:
            >>> import totalcal
            >>> model = totalcal.anp(nn.Linear(4, 3), num_classes=3)
            >>> predictor = model.given(Batch(torch.zeros(6, 4), torch.arange(6) % 3))
            >>> predictor.predict(torch.zeros(2, 4)).probabilities.shape
            torch.Size([2, 3])
        """
        return GivenContext(self, context)

    def _sampling(self, draws: int, seed: int | None = None) -> Sampling:
        """How a prediction with so many draws was made; rows share draws where a seed was given."""
        is_random = draws > 0 and self._is_random()
        return Sampling(draws, seed, shared=seed is not None) if is_random else DETERMINISTIC

    def _is_random(self) -> bool:
        return bool(stochastic_layers(self.backbone)) or self.latent.width > 0

    @torch.no_grad()
    def observe(self, inputs: Inputs, taps: Sequence[Tap]) -> Observation:
        """The features of tapped layers and the entropy, at mean weights and mean latents, without a context.

        So it is a function of each row alone: neither draws nor the rows beside it move it.
        """
        _, observation = self._beliefs(inputs, 0, None, Noise(sharing=Sharing.MEAN), taps)
        assert observation is not None
        return observation

    def _shared_noise(self, inputs: Inputs, draws: int, seed: int) -> Noise:
        generator = torch.Generator(device(inputs)).manual_seed(seed)
        return _noise_for(draws, Sharing.SHARED, generator, paired=True)

    def _moments_or_draws(self, inputs: Inputs, context: Context | None) -> Predictive:
        try:
            return self.predict_moments(inputs, context)
        except NoMomentRuleError as problem:
            name = problem.place_in(self.backbone)
            warnings.warn(f"{name}: {problem} {_TEN} draws take their place.", MomentsWarning, stacklevel=3)
            return self.predict_shared(inputs, _TEN, context)

    def _predicted(
        self, inputs: Inputs, draws: int, context: Context | None, noise: Noise | None, sampling: Sampling
    ) -> Predictive:
        rows = self._checked_context(context)
        belief, observation = self._beliefs(inputs, draws, rows, noise, self.domain.taps)
        belief, familiarity = self.domain.judge(belief, observation)
        paired = noise is not None and noise.paired
        return Predictive(belief, sampling, familiarity, paired=paired)

    def _beliefs(
        self, inputs: Inputs, draws: int, context: Batch | None, noise: Noise | None, taps: Sequence[Tap]
    ) -> tuple[Belief, Observation | None]:
        """A belief for each draw and row, and what the taps saw; the context passes with the inputs.

        Without noise there are points of moments in the place of draws.
        """
        rows, length = self._received(inputs), 0
        if context is not None:
            rows, length = _joined(self._received(context.inputs), rows), len(context.labels)
        collector = Collector(taps, rows, skipped=length)
        with evaluating(self), types_in_words(rows):
            with quick_pooling():
                embedding, mean = (
                    points_and_mean(self.backbone, rows, collector)
                    if noise is None
                    else repeated_and_mean(self.backbone, rows, max(draws, 1), noise, collector)
                )
            check_embedding(embedding[0], count(rows), self.net_classes)
            if context is not None:
                context = Batch(embedding[:, :length], context.labels)
                embedding = embedding[:, length:]
            belief = self.calibrator(self._belief(embedding, context, max(draws, 1), noise))
            check_predicted(belief.mean, as_inputs(inputs), self)
            if mean is None:
                return belief, None
            at_means = self._belief(mean[:, length:], None, 1, Noise(sharing=Sharing.MEAN))
        entropy = categorical_entropy(at_means.mean[0])
        return belief, Observation(collector.features, entropy, _logits(at_means)[0])

    def _belief(self, embedding: Tensor, context: Batch | None, draws: int, noise: Noise | None) -> Belief:
        if noise is None:
            readout = readout_points(self.latent, embedding, context)
        else:
            readout = self.latent.draw(embedding, context, draws, noise)
        number = max(len(embedding), len(readout))
        return self.head.belief(embedding.expand(number, -1, -1), readout.expand(number, -1, -1))

    def _encode(
        self, inputs: Inputs, generator: torch.Generator | None, with_kls: bool
    ) -> tuple[Tensor, WeightKLs | None]:
        """The embedding, and the KLs of weights that came with the pass."""
        noise, rows = Noise(generator), self._received(inputs)

        def once() -> tuple[Tensor, Pass]:
            with sampling(noise) as running:
                running.kls = {} if with_kls else None
                return call(self.backbone, rows), running

        embedding, run = with_uses_known(self.backbone, noise, once)
        check_embedding(embedding, count(rows), self.net_classes)
        run.repeated_by(embedding)
        return embedding, run.kls

    def _loss_terms(
        self,
        embedding: Tensor,
        labels: Tensor,
        context: int,
        generator: torch.Generator | None,
        kls: WeightKLs | None,
        head_loss: HeadLoss | None = None,
    ) -> LossTerms:
        check_embedding(embedding, len(embedding), self.net_classes)
        check_labels(labels, len(embedding), self.net_classes)
        _check_context_length(context, len(embedding))
        readout, latent_kl = self.latent.infer(embedding, labels, context, Noise(generator))
        targets, target_labels = embedding[-len(readout) :], labels[-len(readout) :]
        rows = targets, readout, target_labels
        expected_nll, local_kl = self.head.loss(*rows) if head_loss is None else head_loss(self.head, *rows)
        weight_kl = total_weight_kl(self.backbone, kls)
        return LossTerms(expected_nll, local_kl, latent_kl, weight_kl, self.loss_weights)

    def _received(self, inputs: Inputs) -> Inputs:
        return in_precision_of(self.backbone, checked_inputs(inputs))

    def _checked_context(self, context: Context | None) -> Batch | None:
        if context is None:
            if self.context_use is ContextUse.REQUIRED:
                raise ContextError(
                    "this model needs a context at prediction, and none was given. "
                    "Call predict(…, context=Batch(inputs, labels)), or use model.given(context)."
                )
            return None
        if self.context_use is ContextUse.NONE:
            raise ContextError(
                "this model takes no context at prediction, but one was given. "
                "A model with cells takes it by `absorb_context(inputs, labels)`, before."
            )
        rows = as_context(context)
        check_labels(rows.labels, count(checked_inputs(rows.inputs)), self.net_classes)
        return rows


class GivenContext:
    """A process with a context for its predictions: what a verdict judges of a model that needs one."""

    def __init__(self, process: TuringProcess, context: Context) -> None:
        self.process, self.context = process, as_context(context)

    def predict(
        self, inputs: Inputs, draws: Draws = 10, generator: torch.Generator | None = None
    ) -> Predictive:
        return self.process.predict(inputs, draws, self.context, generator)

    def predict_shared(self, inputs: Inputs, draws: Draws | None = None, seed: int = 0) -> Predictive:
        return self.process.predict_shared(inputs, draws, self.context, seed)


def as_context(given: Context) -> Batch:
    """Labelled rows, whichever way they were given.

    >>> as_context((torch.zeros(2, 3), [0, 1])).labels
    tensor([0, 1])
    """
    inputs, labels = labelled(given)
    if labels is None:
        raise ContextError("a context needs labels: give (inputs, labels), or a mapping with `labels`.")
    return Batch(inputs, labels)


def _joined(context: Inputs, inputs: Inputs) -> Inputs:
    """The rows of a context before those that are predicted: they pass the net together."""
    if not can_be_joined(context, inputs):
        shapes = [[tuple(part.shape[1:]) for part in tensors(rows)] for rows in (context, inputs)]
        raise ShapeError(
            f"a context passes the net with the inputs, so its rows must be like theirs, but they have the "
            f"shapes {shapes[0]} and {shapes[1]}. Pad texts to one length."
        )
    return joined([in_types_of(inputs, context), inputs])


def _logits(belief: Belief) -> Tensor:
    match belief:
        case PointMass():
            return belief.logits
        case Dirichlet():
            return belief.log_concentration
    return belief.log_mean


def _owned(net: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(net)
    except RuntimeError as problem:
        raise InputError(
            f"a process takes a copy of its net, but this {type(net).__name__} cannot be copied: {problem} "
            "Use torch.nn.utils.parametrizations instead of hooks that compute weights."
        ) from problem


def _noise_for(
    draws: int, sharing: Sharing, generator: torch.Generator | None, paired: bool = False
) -> Noise:
    if draws < 0:
        raise InputError(f"draws must be 0 (means) or more, but is {draws}.")
    # A single pair would say nothing of the variance over draws.
    return Noise(generator, sharing if draws else Sharing.MEAN, paired and draws > 2)


def _check_context_length(context: int, rows: int) -> None:
    if not 0 <= context <= rows:
        raise ContextError(
            f"the context is the first rows of the batch: 0 to {rows}, but {context} were asked for."
        )


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
