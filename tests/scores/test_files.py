import numpy as np
import pytest

from totalcal.errors import InputError, LabelError, ShapeError
from totalcal.scores.evaluate import evaluate_files, read_outputs


@pytest.fixture
def saved(tmp_path):
    def save(name, **arrays):
        path = tmp_path / f"{name}.npz"
        np.savez(path, **arrays)
        return path

    return save


def test_a_file_is_judged_with_its_foreign_files(saved):
    test = saved("test", probabilities=np.array([[0.9, 0.1], [0.2, 0.8]]), labels=np.array([0, 1]))
    noise = saved("noise", probabilities=np.array([[0.5, 0.5]]))
    verdict = evaluate_files(test, [noise])
    assert (verdict.error, verdict.auroc, list(verdict.panel)) == (0.0, 1.0, ["noise"])


def test_draws_come_first_in_a_file(saved):
    draws = np.array([[[0.9, 0.1]] * 3, [[0.7, 0.3]] * 3])
    verdict = evaluate_files(saved("test", probabilities=draws, labels=np.zeros(3, dtype=int)))
    assert verdict.nll == pytest.approx(-np.log(0.8))
    assert (verdict.draws, verdict.examples) == (2, 3)


def test_labels_of_a_file_may_be_names_of_its_classes(saved):
    probabilities, words = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array(["cat", "dog"])
    assert evaluate_files(saved("names", probabilities=probabilities, labels=words, classes=words)).error == 0
    with pytest.raises(LabelError, match="Names need `classes`"):
        evaluate_files(saved("no names", probabilities=probabilities, labels=words))
    with pytest.raises(ShapeError, match="2 columns, but 1 names"):
        evaluate_files(saved("few", probabilities=probabilities, labels=words, classes=words[:1]))


def test_a_file_states_exactly_one_kind(saved):
    both = saved("both", logits=np.zeros((1, 2)), probabilities=np.full((1, 2), 0.5))
    with pytest.raises(InputError, match="exactly one of logits, probabilities"):
        read_outputs(both)
    with pytest.raises(InputError, match="it holds scores"):
        read_outputs(saved("none", scores=np.zeros((1, 2))))


def test_what_cannot_be_judged_is_refused(saved, tmp_path):
    logits = saved("logits", logits=np.zeros((1, 2)), labels=np.zeros(1, dtype=int))
    with pytest.raises(InputError, match="no file"):
        evaluate_files(tmp_path / "absent.npz")
    with pytest.raises(InputError, match="no `labels`"):
        evaluate_files(saved("bare", logits=np.zeros((1, 2))))
    with pytest.raises(InputError, match="save both alike"):
        evaluate_files(logits, [saved("other", probabilities=np.full((1, 2), 0.5))])
    with pytest.raises(InputError, match="two OOD sets"):
        evaluate_files(logits, [logits, logits])


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 torn"])
def test_a_file_that_is_no_npz_is_refused(tmp_path, content):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"an \.npz"):
        read_outputs(path)


def test_pickles_are_never_loaded(saved):
    with pytest.raises(InputError, match="plain arrays"):
        read_outputs(saved("pickle", logits=np.array([object()])))


def test_a_single_npy_array_is_refused(tmp_path):
    np.save(tmp_path / "alone.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"numpy\.savez"):
        read_outputs(tmp_path / "alone.npy")
