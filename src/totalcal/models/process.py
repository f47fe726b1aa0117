"""The Turing Process: the only assembly. Every model is this class with other parts in its slots."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from totalcal.calibration.calibrator import NoCalibrator
from totalcal.errors import ContextError, InputError, ShapeError
from totalcal.functional.decomposition import categorical_entropy, log_joint
from totalcal.inputs import (
    Inputs,
    as_inputs,
    as_labels,
    blocks,
    by_class,
    call,
    can_be_joined,
    check_embedding,
    check_labels,
    check_predicted,
    checked_inputs,
    count,
    in_types_of,
    joined,
    labelled,
    received_by,
    taken,
    tensors,
    types_in_words,
)
from totalcal.memory.domain import Domain, Memorised, NoDomain
from totalcal.memory.features import Collector, Tap, collecting, tap
from totalcal.memory.rows import Observation, ObservedRows, row_keys
from totalcal.models.evaluating import Evaluating
from totalcal.parts.heads import Head
from totalcal.parts.latents import Latent
from totalcal.parts.moments import NoMomentRuleError, embedding_points, readout_points
from totalcal.parts.pooling import with_quick_pooling
from totalcal.parts.repeating import ExecutionPlan, structure
from totalcal.parts.sampling import (
    MEANS,
    Noise,
    SeedNoise,
    WeightKLs,
    move_like,
    sampling,
)
from totalcal.parts.weights import point_layers, total_weight_kl
from totalcal.ranks import is_distributed
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
_MEASURED_ROWS, _MEASURED_NUMBERS = 200, 20_000
_MEASURED_DRAWS = (100, 1.5), (1000, 1.0)  # how many, and how far from the bounds they must be to settle it
_LARGEST_RATIO = 1.1
HeadLoss = Callable[[Head, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a head, embeddings, readouts and labels to the expected NLL and the local KL, as `Head.loss`."""


_LEARNING, SWAPPING = RLock(), RLock()
"""Held while a memory learns, and for the instant in which the new one takes the place of the old."""

Changed = TypeVar("Changed")
Context: TypeAlias = Batch | tuple[Any, Any] | Mapping[str, Any]
"""Labelled rows: a pair, or a mapping with `labels`."""


Planned: TypeAlias = tuple[ExecutionPlan, list[nn.Module]]
"""How a backbone is run, and all modules of the process around it."""


class TuringProcess(nn.Module):
    """Any model of the family: backbone (w), latent (Z) and head (π), as in Definition 1 (section 5). Final.

    A process owns its backbone: it takes a copy of the net it is given, which is left alone and shares
    nothing with it. Train `process.parameters()`, and find the trained net in `process.backbone`.

    A training step in anybody's own loop is `encode`, `absorb`, `loss_terms`, or `forward` for all three: its
    randomness comes from the generator given, down to the layers of the backbone; without one, from torch's
    global one. `predict` draws as a seed says. Predictions are made as in evaluation mode, and many threads
    may make them at once. Inputs are what the net takes: a tensor or an array, or a mapping or tuple of them
    (`totalcal.inputs`), on any device: they are moved to the model's.
    """

    _known: tuple[list[object], Planned] | None = None
    """The structure of this process when it was last looked at, and what follows from it."""

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
            raise InputError(
                f"a classifier needs num_classes ≥ 2, but got {num_classes}. A net with one logit has two."
            )
        if min(loss_weights) < 0:
            raise InputError(f"the weights of the KL terms must be 0 or more, but got {loss_weights}.")
        self.backbone, self.latent, self.head = _owned(backbone), latent, head
        move_like(self.backbone, latent, head)  # a trained net may be in any place and precision
        self.net_classes, self.loss_weights = num_classes, loss_weights
        self.calibrator: nn.Module = NoCalibrator()
        self.prefers_moments = False
        self.domain: Domain
        self.set_domain(NoDomain() if domain is None else domain)

    def set_domain(self, domain: Domain) -> None:
        """Fill the slot for the domain; the layers that it reads are tapped, no others."""
        tap(self.backbone, domain.taps)
        self.domain = domain

    def snapshot(self) -> "TuringProcess":
        """The same weights with the memory of this moment: what is learned later, it does not know.

        Its slots are its own: filling one leaves the process as it is.

        Example:
            >>> import totalcal
            >>> model = totalcal.softmax(nn.Linear(4, 3), num_classes=3)
            >>> before = model.snapshot()
            >>> before.domain is model.domain, before.backbone is model.backbone
            (True, True)
        """
        found = copy.copy(self)
        vars(found)["_modules"] = dict(self._modules)
        return found

    @property
    def num_classes(self) -> int:
        """How many classes predictions have: those of the net, `net_classes`, and those memorised since."""
        return self.net_classes + self.domain.num_learned

    @property
    def default_draws(self) -> int | Literal["moments"]:
        """What `draws="auto"` stands for: ten, or "moments" if `measure_default_draws` found them better."""
        return "moments" if self.prefers_moments else _TEN

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
            update = self._absorb(embedding, labels, generator)
            if not bool(update.distances.sum().isfinite()):
                raise InputError(
                    "this context would write numbers that are not finite: the memory stays as it was. Its "
                    f"embedding reaches {float(embedding.abs().max()):.3g}: scale the rows as in training, "
                    "or drop them."
                )
            return update

    def _absorb(self, embedding: Tensor, labels: Tensor, generator: torch.Generator | None) -> MemoryUpdate:
        check_labels(labels, len(embedding), self.net_classes)
        if len(embedding) == 0 and not is_distributed():
            return MemoryUpdate(embedding.new_zeros(0))
        return self.latent.absorb(embedding, labels.to(embedding.device), Noise(generator))

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
        self,
        inputs: Inputs,
        labels: Tensor,
        name: str | None = None,
        *,
        batch_size: int = 256,
        names: Sequence[Any] | None = None,
        then: Callable[[Memorised], object] = lambda learned: None,
    ) -> Memorised:
        """Learn from labelled rows without training: new classes, or known ones in a new domain.

        Labels from `num_classes` on are new classes, which predictions have columns for from now on; the
        answers among the net's own classes change by one factor. Rows of known classes become familiar.

        Args:
            inputs: What the net takes.
            labels: Their class numbers.
            name: What `forget` will drop them by; made of the classes if not given.
            batch_size: How many rows pass at once.
            names: Of all classes, the new ones included: what is said names them, in place of numbers.
            then: Is told what was learned in the same instant (`SWAPPING`) in which predictions know it.

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
        inputs, labels = as_inputs(inputs), as_labels(labels)
        check_labels(labels, count(inputs), self.num_classes + len(labels))
        if not len(labels) or not self.domain.taps:
            return self.domain.memorise((), name, names)
        parts = zip(blocks(inputs, batch_size), labels.split(batch_size), strict=True)
        rows = [ObservedRows(self.observe(x, self.domain.taps), y, row_keys(x)) for x, y in parts]
        return self._with_new_domain(lambda domain: domain.memorise(rows, name, names), then)

    def forget(
        self, name: str, *, then: Callable[[tuple[int, ...]], object] = lambda gone: None
    ) -> tuple[int, ...]:
        """Drop what was memorised under a name: the model is as if it had never been.

        Args:
            name: As in `memorise`.
            then: As in `memorise`.

        Returns:
            The numbers of the classes that are gone; those behind them move down.

        Raises:
            UnknownNameError: Nothing has this name.
            DomainError: The model has no memory.
        """
        return self._with_new_domain(lambda domain: domain.forget(name), then)

    def _with_new_domain(
        self, change: Callable[[Domain], Changed], then: Callable[[Changed], object]
    ) -> Changed:
        """Change a copy of the memory, which takes its place: predictions see one or the other."""
        with _LEARNING:
            domain = copy.deepcopy(self.domain)
            found = change(domain)
            with SWAPPING:
                self.domain = domain
                then(found)
        return found

    def loss_terms(
        self, embedding: Tensor, labels: Tensor, context: int = 0, generator: torch.Generator | None = None
    ) -> LossTerms:
        """The free energy in parts. Changes no state.

        Args:
            embedding: Of a batch, as `encode` gives it.
            labels: Its class numbers.
            context: How many of its first rows are the context; of a short last batch, as many as there are.
            generator: Where the draw of Z comes from; torch's global generator without one.

        Returns:
            The terms; `total(examples)` is the loss per example.

        Raises:
            ContextError: If the context is negative.
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
            context: How many rows are the context; of a short last batch, as many as there are.
            generator: What the pass draws from.
            write_generator: What the write draws from; without one, the memory's own generator.
            write_first: Whether the memory is written before the loss is computed.
            head_loss: In place of the head's own, where labels alone do not say what is to be learnt.

        Returns:
            The terms of the free energy, and how far the write moved the memory.

        Raises:
            ContextError: The context is negative.
        """
        embedding, kls = self._encode(inputs, generator, with_kls=True)
        context = _context_length(context, len(embedding))
        rows = embedding[:context].detach(), labels[:context]
        if write_first:
            update = self._absorb(*rows, write_generator)
            return self._loss_terms(embedding, labels, context, generator, kls, head_loss), update
        terms = self._loss_terms(embedding, labels, context, generator, kls, head_loss)
        return terms, self._absorb(*rows, write_generator)

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Context | None = None
    ) -> Predictive:
        """The predictive distribution, with so many draws of θ = (w, Z); 0 uses mean weights and mean cells.

        The draws are those of the seed, and all rows share them: a row's prediction is a function of the row
        and the seed, to rounding, whatever its batch, thread, device or precision. (Graphs, whose rows see
        each other, are excepted.) What is deterministic runs once, however many draws there are; from three
        draws on they come in pairs of opposite noise. "moments" draws nothing: moments go through the
        backbone, and fixed points through latent and head. "auto" is `default_draws`.

        Args:
            inputs: What the net takes; the first axis is the batch.
            draws: How many, 0, "moments" or "auto".
            seed: What the draws are a function of.
            context: Labelled rows to predict from, for the models that take a context.

        Returns:
            Beliefs, draws × batch × classes, with `probabilities`, `entropy` and `decompose()`.

        Raises:
            InputError: If inputs are not finite, or there are none.
            ShapeError: If the net does not give one column per class.
            ContextError: If the model needs a context and has none, or takes none and was given one.
            NoMomentRuleError: "moments" were asked for, and a layer has no rule for them.

        Example:
            >>> import totalcal
            >>> model = totalcal.etp(nn.Linear(4, 3), num_classes=3)
            >>> model.predict(torch.zeros(2, 4), draws=5, seed=1).sampling
            Sampling(draws=5, seed=1)
        """
        chosen = self.default_draws if draws == "auto" else draws
        known = self._planned()
        noise = None if chosen == "moments" else known[0].noise(chosen, seed)
        return self.predicted(inputs, noise, context, known)

    @torch.no_grad()
    def measure_default_draws(
        self, inputs: Inputs, context: Context | None = None
    ) -> int | Literal["moments"]:
        """Find out what `draws="auto"` is to be: moments where they are at least as good as ten draws.

        Against a thousand draws of another seed: the probabilities by moments are as near to theirs as those
        of ten draws are, and the sum of the reducible uncertainty is within a tenth of theirs. Moments treat
        hidden units as independent, which costs more the deeper a net is.

        Args:
            inputs: Rows as those that will be predicted; two hundred are enough.
            context: As in `predict`.

        Returns:
            What `default_draws` is from now on.

        Raises:
            InputError, ShapeError, ContextError: As in `predict`.

        Example:
            >>> import totalcal
            >>> _ = torch.manual_seed(3)
            >>> totalcal.etp(nn.Linear(4, 3), num_classes=3).measure_default_draws(torch.randn(100, 4))
            'moments'
        """
        self.prefers_moments = False
        few = min(_MEASURED_ROWS, max(_MEASURED_NUMBERS // self.num_classes, _TEN))
        rows = as_inputs(inputs)
        rows = rows if count(rows) <= few else taken(rows, slice(0, few))
        try:
            by_moments = self.predict(rows, draws="moments", context=context)
        except NoMomentRuleError:
            return _TEN
        if by_moments.sampling == BY_MOMENTS:
            self.prefers_moments = self._are_as_good_as_ten(by_moments, rows, context)
        return self.default_draws

    def _are_as_good_as_ten(self, found: Predictive, rows: Inputs, context: Context | None) -> bool:
        for draws, slack in _MEASURED_DRAWS:
            truth = self.predict(rows, draws=draws, seed=1, context=context)
            tens = truth.belief.mean.unflatten(0, (2, draws // _TEN, _TEN // 2)).mean((0, 2))  # pairs: ± ε
            of_ten = (tens - truth.probabilities).abs().mean()
            of_moments = (found.probabilities - truth.probabilities).abs().mean()
            ratio = found.decompose().reducible.sum() / truth.decompose().reducible.sum().clamp_min(1e-12)
            off = max(float(ratio), 1 / max(float(ratio), 1e-12))
            if not (of_moments <= slack * of_ten and off <= slack * _LARGEST_RATIO):
                return False
        return True

    def predicted(
        self,
        inputs: Inputs,
        noise: SeedNoise | None,
        context: Context | None,
        known: Planned | None = None,
    ) -> Predictive:
        """`predict` with noise that is at hand, as an exported program has it; None stands for moments."""
        domain, known = self.domain, known or self._planned()  # read once: other threads may put in others
        chosen: Noise | None = noise
        if (noise is not None and not noise.count) or not (known[0].layers or self.latent.width):
            sampling, chosen = DETERMINISTIC, MEANS
        else:
            sampling = BY_MOMENTS if noise is None else Sampling(noise.count, noise.seed)
        rows = self._checked_context(context)
        belief, familiarity = domain.judge(*self._beliefs(known, inputs, chosen, rows, domain.taps))
        return Predictive(belief, sampling, familiarity)

    @torch.no_grad()
    def log_joint(
        self,
        inputs: Inputs,
        labels: Tensor,
        *,
        draws: int = 100,
        seed: int = 0,
        context: Context | None = None,
    ) -> Tensor:
        """log p_M(Y) = log E_θ Π p(y_i | x_i, θ), Definition 1: all rows share the noise of a draw.

        Draws are independent here: a product of many labels is not a monotone function of the noise, and
        pairs of opposite noise need not help.

        Args:
            inputs: As in `predict`.
            labels: One class number per row.
            draws: How many draws of θ.
            seed: What they are a function of.
            context: As in `predict`.

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
        noise = SeedNoise(draws, seed, paired=False) if draws else MEANS
        domain, rows = self.domain, self._checked_context(context)
        belief, _ = domain.judge(*self._beliefs(self._planned(), inputs, noise, rows, domain.taps))
        log_mean = belief.log_mean
        chosen = labels.to(log_mean.device).view(1, -1, 1).expand(len(log_mean), -1, 1)
        return log_joint(log_mean.gather(-1, chosen).squeeze(-1))

    def given(self, context: Context) -> "GivenContext":
        """A predictor that brings its context along.

        Args:
            context: Labelled rows, as `predict` takes them.

        Returns:
            A predictor with `predict(inputs, draws=…, seed=…)`.

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

    @torch.no_grad()
    def observe(self, inputs: Inputs, taps: Sequence[Tap]) -> Observation:
        """The features of tapped layers and the entropy, at mean weights and mean latents, without a context.

        So it is a function of each row alone: neither draws nor the rows beside it move it.
        """
        _, observation = self._beliefs(self._planned(), inputs, MEANS, None, taps)
        assert observation is not None
        return observation

    def _planned(self) -> Planned:
        """How the backbone is run, chosen once, and again when its layers or hooks are others."""
        found, known = structure(self), self._known
        if known is None or known[0] != found:
            plan = None if known is None else known[1][0]
            if plan is None or plan.structure != structure(self.backbone):
                plan = ExecutionPlan(self.backbone)
            self._known = known = found, (plan, [part for part in found if isinstance(part, nn.Module)])
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_known"}

    def _beliefs(
        self,
        known: Planned,
        inputs: Inputs,
        noise: Noise | None,
        context: Batch | None,
        taps: Sequence[Tap],
    ) -> tuple[Belief, Observation | None]:
        """A belief for each draw and row, and what the taps saw; the context passes with the inputs.

        Without noise there are points of moments in the place of draws.
        """
        plan, parts = known
        rows, length = self._received(inputs), 0
        if context is not None:
            rows, length = _joined(self._received(context.inputs), rows), len(context.labels)
        mean, last, collector = None, None, Collector(taps, rows, skipped=length) if taps else None
        with Evaluating(parts), types_in_words(rows):
            if collector is not None or noise is MEANS:
                if plan.repeats_itself is None and not torch.compiler.is_compiling():
                    plan.learn_whether_it_repeats(rows)
                with nullcontext() if collector is None else collecting(collector):
                    mean, hidden, last = plan.at_means(rows)
            else:
                hidden = plan.before(rows)
            if isinstance(noise, SeedNoise):
                embedding = plan.drawn(hidden, noise, last)
            elif noise is None:
                embedding = self._points(plan, hidden)
            else:
                assert mean is not None
                embedding = mean.unsqueeze(0)
            check_embedding(embedding.shape[1:], count(rows), self.net_classes)
            if context is not None:
                context = Batch(embedding[:, :length], context.labels.to(embedding.device))
                embedding = embedding[:, length:]
            own = self._belief(embedding, context, noise)
            belief: Belief = self.calibrator(own)
            check_predicted(belief.mean, inputs, self)
            if collector is None or mean is None:
                return belief, None
            is_at_means = noise is MEANS and context is None
            at_means = own if is_at_means else self._belief(mean.unsqueeze(0)[:, length:], None, MEANS)
        entropy = categorical_entropy(at_means.mean[0])
        return belief, Observation(collector.features, entropy, _logits(at_means)[0])

    def _points(self, plan: ExecutionPlan, hidden: Inputs) -> Tensor:
        points = embedding_points(plan.drawing, hidden)
        if not (plan.is_quiet or torch.compiler.is_compiling()):
            again = embedding_points(plan.drawing, hidden)
            if not torch.equal(points, again) and not points.isnan().any():
                raise NoMomentRuleError(self.backbone, "a layer draws random numbers of its own")
            plan.is_quiet = True
        return points

    def _belief(self, embedding: Tensor, context: Batch | None, noise: Noise | None) -> Belief:
        if noise is None:
            readout = readout_points(self.latent, embedding, context)
        else:
            draws = noise.count if isinstance(noise, SeedNoise) else 1
            readout = self.latent.draw(embedding, context, draws, noise)
        if len(embedding) != len(readout):  # one draw of either stands beside all of the other
            number = max(len(embedding), len(readout))
            embedding, readout = embedding.expand(number, -1, -1), readout.expand(number, -1, -1)
        return self.head.belief(embedding, readout)

    def _encode(
        self, inputs: Inputs, generator: torch.Generator | None, with_kls: bool
    ) -> tuple[Tensor, WeightKLs | None]:
        """The embedding, and the KLs of weights that came with the pass."""
        rows, (plan, parts) = self._received(inputs), self._planned()
        if not (plan.uses_are_known or torch.compiler.is_compiling()):
            with Evaluating(parts):
                plan.learn_uses(rows)
        with sampling(Noise(generator)) as running:
            running.kls = {} if with_kls else None
            embedding = by_class(call(self.backbone, rows))
        check_embedding(embedding.shape, count(rows), self.net_classes)
        return embedding, running.kls

    def _loss_terms(
        self,
        embedding: Tensor,
        labels: Tensor,
        context: int,
        generator: torch.Generator | None,
        kls: WeightKLs | None,
        head_loss: HeadLoss | None = None,
    ) -> LossTerms:
        check_embedding(embedding.shape, len(embedding), self.net_classes)
        check_labels(labels, len(embedding), self.net_classes)
        labels = labels.to(embedding.device)
        context = _context_length(context, len(embedding))
        readout, latent_kl = self.latent.infer(embedding, labels, context, Noise(generator))
        targets, target_labels = embedding[-len(readout) :], labels[-len(readout) :]
        rows = targets, readout, target_labels
        expected_nll, local_kl = self.head.loss(*rows) if head_loss is None else head_loss(self.head, *rows)
        weight_kl = total_weight_kl(self.backbone, kls)
        return LossTerms(expected_nll, local_kl, latent_kl, weight_kl, self.loss_weights)

    def _received(self, inputs: Inputs) -> Inputs:
        return received_by(self.backbone, checked_inputs(inputs))

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
        self, inputs: Inputs, *, draws: Draws = "auto", seed: int = 0, context: Context | None = None
    ) -> Predictive:
        """`TuringProcess.predict`, from this context unless another is given."""
        return self.process.predict(inputs, draws=draws, seed=seed, context=context or self.context)


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
    """A copy of the net alone, without what compiles it or spreads it over devices."""
    net = uncompiled(net)
    while isinstance(net, nn.DataParallel | DistributedDataParallel):
        net = uncompiled(net.module)
    try:
        owned = with_quick_pooling(copy.deepcopy(net))
    except RuntimeError as problem:
        raise InputError(
            f"a process takes a copy of its net, but this {type(net).__name__} cannot be copied: {problem} "
            "Use torch.nn.utils.parametrizations instead of hooks that compute weights, or end pruning with "
            "torch.nn.utils.prune.remove."
        ) from problem
    for layer in owned.modules():
        if isinstance(layer, nn.TransformerEncoder):  # it packs rows, or not, by the masks of others
            layer.use_nested_tensor = False
    return owned


def uncompiled(net: nn.Module) -> nn.Module:
    """The net without what `torch.compile` put around it or its layers, in a copy if there is some.

    >>> uncompiled(nn.Sequential(torch.compile(nn.Linear(4, 3))))
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
    )
    """
    net = _without_compiler(net)
    if not any(_COMPILED in part._modules for part in net.modules()):
        return net
    found = copy.deepcopy(net)
    for part in list(found.modules()):
        for name, child in part._modules.items():
            part._modules[name] = child if child is None else _without_compiler(child)
    return found


_COMPILED = "_orig_mod"


def _without_compiler(net: nn.Module) -> nn.Module:
    while _COMPILED in net._modules:  # a scripted module's is no dictionary
        net = net.get_submodule(_COMPILED)
    return net


def _context_length(context: int, rows: int) -> int:
    if context < 0:
        raise ContextError(f"a context has 0 rows or more, but {context} were asked for.")
    return min(context, rows)
