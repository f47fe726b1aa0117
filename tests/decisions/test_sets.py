"""Sets of classes that hold the true one as often as promised."""

import json

import numpy as np
import pytest
import torch
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

import totalcal
from totalcal.decisions.sets import PredictionSets, cumulated
from totalcal.errors import GateError, InputError, UnknownNameError
from totalcal.nets import mlp
from totalcal.types import PointMass, Predictive, Sampling


def predictions(rows: int, classes: int, seed: int, ties: bool = False) -> tuple[Predictive, np.ndarray]:
    """A model that is wrong about its own uncertainty: labels come from softmax of half of its logits."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    logits = logits.round() if ties else logits
    labels = torch.multinomial((logits / 2).softmax(-1), 1, generator=generator).flatten()
    return Predictive(PointMass(logits[None])), labels.numpy()


def covered(repetitions, method, held_out, coverage, ties):
    """How often sets hold the true class: the mean over held-out sets, and its standard error."""
    found = []
    for seed in range(repetitions):
        prediction, labels = predictions(held_out + 20, 5, seed, ties)
        logits = prediction.belief.logits
        known, new = (Predictive(PointMass(part)) for part in logits.split([held_out, 20], 1))
        inside = PredictionSets.fitted(known, labels[:held_out], coverage, method)(new)
        found.append(inside[np.arange(20), labels[held_out:]].mean())
    return np.mean(found), np.std(found) / np.sqrt(repetitions)


METHODS, SIZES = ["aps", "raps", "split"], [(19, 0.9), (200, 0.9), (200, 0.6)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("held_out", "coverage"), SIZES)
def test_sets_cover_as_often_as_promised_at_any_size(method, held_out, coverage):
    mean, error = covered(60, method, held_out, coverage, ties=held_out == 200)
    assert mean >= coverage - 3 * error


@pytest.mark.exhaustive
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("held_out", "coverage"), SIZES)
def test_sets_cover_as_often_as_promised_over_five_hundred_held_out_sets(method, held_out, coverage, ties):
    mean, error = covered(500, method, held_out, coverage, ties)
    assert mean >= coverage - 3 * error
    if method == "split" and not ties and held_out == 200:
        assert mean <= coverage + 0.06  # it does not promise little by keeping everything


def test_cumulated_scores_agree_with_a_loop():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(6), size=50)
    brute = [[-sum(p for p in row if p < each) - each / 2 for each in row] for row in probabilities]
    np.testing.assert_allclose(cumulated(probabilities), brute, rtol=1e-12)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose input is what it answers."""

    def fit(self, inputs, labels):
        self.classes_, self.is_fitted_ = np.arange(inputs.shape[1]), True
        return self

    def predict_proba(self, inputs):
        return inputs

    def predict(self, inputs):
        return inputs.argmax(1)


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_split_sets_are_those_of_mapie(coverage):
    """Where ours keeps the likeliest class, MAPIE may leave a set empty. Its APS draws at random."""
    prediction, labels = predictions(400, 5, 3)
    given = prediction.probabilities.double().numpy()
    given /= given.sum(1, keepdims=True)
    mapie = SplitConformalClassifier(Given().fit(given, labels), coverage, "lac")
    mapie.conformalize(given[:200], labels[:200])
    theirs = mapie.predict_set(given[200:])[1][:, :, 0]
    theirs[np.arange(200), given[200:].argmax(1)] = True
    logits = prediction.belief.logits
    ours = PredictionSets.fitted(Predictive(PointMass(logits[:, :200])), labels[:200], coverage, "split")
    np.testing.assert_array_equal(ours.of(given[200:]), theirs)


def test_a_surer_row_has_a_smaller_set():
    prediction, labels = predictions(500, 5, 0)
    sizes = PredictionSets.fitted(prediction, labels, 0.9, "aps")(prediction).sum(1)
    assert np.corrcoef(sizes, prediction.entropy)[0, 1] > 0.5
    assert sizes.min() >= 1


def test_other_draws_and_too_few_rows_are_refused():
    prediction, labels = predictions(5, 3, 0)
    with pytest.raises(GateError, match="at least 9 held-out rows"):
        PredictionSets.fitted(prediction, labels, 0.9)
    with pytest.raises(UnknownNameError, match="aps"):
        PredictionSets.fitted(prediction, labels, 0.5, "largest")
    sets = PredictionSets.fitted(prediction, labels, 0.5)
    with pytest.raises(GateError, match="fit the sets again"):
        sets(Predictive(prediction.belief, Sampling(10, 0)))


def test_a_prediction_has_its_set_at_any_coverage_from_one_list_of_scores():
    prediction, labels = predictions(200, 5, 0)
    fitted = PredictionSets.fitted(prediction, labels, 0.9)
    with_sets = Predictive(prediction.belief, sets=fitted)
    for coverage in (0.5, 0.8, 0.95):
        own = PredictionSets.fitted(prediction, labels, coverage)
        np.testing.assert_array_equal(with_sets.set(coverage=coverage).numpy(), own(prediction))
    with pytest.raises(GateError, match="at least 999"):
        with_sets.set(coverage=0.999)
    with pytest.raises(InputError, match=r"PredictionSets\.fitted"):
        prediction.set(coverage=0.9)


def test_sets_come_back_with_their_model_and_cover(tmp_path):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(3000, 2, generator=generator)
    labels = torch.multinomial((2 * inputs @ torch.eye(2, 3)).softmax(-1), 1, generator=generator).flatten()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = totalcal.etp(mlp(2, 3), num_classes=3)
    held_out = model.predict(inputs[:1000], draws=5, seed=3)
    fitted = PredictionSets.fitted(held_out, labels[:1000], 0.8, "split")
    totalcal.save(model, tmp_path / "m.totalcal", sets=fitted)
    found = totalcal.load(tmp_path / "m.totalcal").predict(inputs[1000:].numpy()).set(coverage=0.9)
    covered = found[torch.arange(2000), labels[1000:]].double().mean()
    assert covered == pytest.approx(0.9, abs=0.04)  # its deviation is 0.012


def test_many_rows_are_thinned_and_still_cover():
    prediction, labels = predictions(20_000, 5, 1)
    fitted = PredictionSets.fitted(prediction, labels, 0.9, "split")
    assert len(fitted.scores) == 5000
    assert list(fitted.scores) == sorted(fitted.scores)
    covered = fitted(prediction)[np.arange(20_000), labels].mean()
    assert covered == pytest.approx(0.9, abs=0.015)


def test_sets_go_through_json():
    prediction, labels = predictions(50, 3, 0)
    sets = PredictionSets.fitted(Predictive(prediction.belief, Sampling(10, 3)), labels)
    assert PredictionSets.from_json(json.loads(json.dumps(sets.as_json()))) == sets


@pytest.mark.parametrize("method", ["aps", "raps", "split"])
def test_a_sure_net_s_sets_are_small(method):
    """Nine in ten rows at 1 − 10⁻¹²: the unlikely classes of the others are not within rounding of them."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 10))
    labels = rng.integers(10, size=400)
    logits[np.arange(400), labels] += np.where(rng.random(400) < 0.9, 30, 8)
    held_out = Predictive(PointMass(torch.tensor(logits)[None]))
    assert PredictionSets.fitted(held_out, labels, 0.9, method)(held_out).sum(1).mean() < 1.1


def many_classes(rows, seed, classes=180):
    """A net that is too sure of what it knows, and knows little: 43 % right among 180 classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    logits = 2 * rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 6 * rng.exponential(size=rows)
    return Predictive(PointMass(torch.from_numpy(2.5 * logits)[None])), labels


def test_aps_covers_and_is_as_small_as_mapie_s_random_one_of_many_classes():
    (held_out, labels), (new, truth) = many_classes(800, 0), many_classes(800, 1)
    given, asked = held_out.probabilities.numpy(), new.probabilities.numpy()
    mapie = SplitConformalClassifier(Given().fit(given, labels), 0.95, "aps", random_state=0)
    mapie.conformalize(given, labels)
    theirs = mapie.predict_set(asked, conformity_score_params={"include_last_label": "randomized"})[1]
    ours = PredictionSets.fitted(held_out, labels, 0.95, "aps")(new)
    assert ours[np.arange(800), truth].mean() == pytest.approx(0.95, abs=0.025)
    assert ours.sum(1).mean() == pytest.approx(theirs[:, :, 0].sum(1).mean(), rel=0.05)
