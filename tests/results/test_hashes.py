"""Where the figures of a table come from."""

from totalcal.results.hashes import configurations, data_hashes, hashes_layout


def test_configurations_stand_by_model_and_in_the_order_of_seeds(make_record):
    runs = [("etp", 1, "c"), ("bnn", 0, "a"), ("etp", 0, "b")]
    records = [make_record(model, seed, config=config) for model, seed, config in runs]
    assert configurations(records) == {"bnn": ["a"], "etp": ["b", "c"]}


def test_a_set_shows_one_hash_or_those_of_its_seeds_in_order(make_record):
    data = {2: {"sha256/test": "t", "sha256/train": "b"}, 0: {"sha256/test": "t", "sha256/train": "z"}}
    records = [make_record(seed=seed, **hashes) for seed, hashes in data.items()]
    assert data_hashes(records) == {"test": ["t"], "train": ["z", "b"]}


def test_a_section_for_the_runs_and_one_for_the_data(make_record):
    layout = hashes_layout([make_record(config="abc", settings={"epochs": 10}, **{"sha256/test": "def"})])
    shown = {
        section.title: [[entry.text for entry in row] for row in section.rows] for section in layout.sections
    }
    assert shown == {
        "fashion (paper, epochs=10), configurations by seed": [["etp", "abc"]],
        "fashion (paper, epochs=10), data": [["test", "def"]],
    }
