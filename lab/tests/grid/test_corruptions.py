"""Trained models under corruption."""

import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal_lab.corruptions import corrupt
from totalcal_lab.grid import corruptions
from totalcal_lab.grid.building import load_data, trained_process
from totalcal_lab.grid.configuration import RunConfig
from totalcal_lab.grid.corruptions import corruption_jobs
from totalcal_lab.grid.grid import Grid, grid_jobs
from totalcal_lab.records.corruptions import corruption_records
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import read_records

TINY = {"epochs": 2, "train_limit": 200, "test_limit": 60, "ood_limit": 20, "joint_sets": 2}
TYPES = ["fog", "shot_noise"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Trained models of three kinds, none of them judged under corruption yet."""
    folder = tmp_path_factory.mktemp("runs")
    grid_jobs(
        Grid("digits", "laptop", TINY).configurations(["softmax", "etp", "temperature"], 1), folder
    ).run("sequential")
    return folder


@pytest.fixture
def runs(root):
    folders = [RunFolder(path.parent) for path in sorted(root.glob("*/config.json"))]
    yield folders
    for folder in folders:
        folder.corruptions_file.unlink(missing_ok=True)
    for done in root.glob("corruptions/*/done"):
        done.unlink()


def _by_model(runs):
    return {run.config["model"]: read_records(run.corruptions_file) for run in runs}


def test_every_model_has_a_line_for_every_variant(runs):
    jobs = corruption_jobs(runs, TYPES, [1, 5])
    jobs.run("sequential")
    assert jobs.are_done
    for model, lines in _by_model(runs).items():
        assert [(line["corruption"], line["severity"]) for line in lines] == [
            (type, severity) for severity in (1, 5) for type in TYPES
        ]
        assert all(line["model"] == model and line["examples"] == 60 for line in lines)


def test_the_error_is_that_of_images_corrupted_by_hand(runs):
    (run,) = [run for run in runs if run.config["model"] == "softmax"]
    corruption_jobs([run], ["fog"], [5]).run("sequential")
    test = load_data(RunConfig.from_json(run.config)).test
    foggy = corrupt(test.inputs.squeeze(-1), "fog", 5, dataset="digits").unsqueeze(-1)
    inputs = test.scaling(foggy).permute(0, 3, 1, 2)
    wrong = trained_process(run).backbone(inputs).argmax(1) != test.labels
    (line,) = read_records(run.corruptions_file)
    assert line["error"] == pytest.approx(float(wrong.float().mean()))


def test_a_block_is_made_once_for_all_models(runs, monkeypatch):
    made = []

    def counted(*arguments, **options):
        for block in corrupted_blocks(*arguments, **options):
            made.append(block)
            yield block

    corrupted_blocks = corruptions.corrupted_blocks
    monkeypatch.setattr(corruptions, "corrupted_blocks", counted)
    corruption_jobs(runs, ["fog"], [1]).run("sequential")
    assert len(made) == 1  # 60 images are one block


def test_what_is_judged_is_not_judged_again_and_a_newcomer_catches_up(runs):
    corruption_jobs(runs[:1], TYPES, [1]).run("sequential")
    before = runs[0].corruptions_file.read_bytes()
    corruption_jobs(runs, TYPES, [1]).run("sequential")
    assert runs[0].corruptions_file.read_bytes() == before
    assert all(len(lines) == 2 for lines in _by_model(runs).values())


@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_a_line_that_was_changed_or_lost_is_made_again(runs, root, damage):
    (run,) = [run for run in runs if run.config["model"] == "softmax"]
    corruption_jobs([run], TYPES, [1]).run("sequential")
    before = run.corruptions_file.read_bytes()
    if damage == "changed":
        run.corruptions_file.write_bytes(before.replace(b'"error": 0.', b'"error": 1.', 1))
        with pytest.raises(InputError, match="is not what its checksum says"):
            read_records(run.corruptions_file)
        run.plan({})  # as the grid does: the file is set aside
    else:
        run.corruptions_file.write_bytes(before.splitlines(keepends=True)[0])
    corruption_jobs([run], TYPES, [1]).run("sequential")
    assert run.corruptions_file.read_bytes() == before


def test_company_changes_no_score(runs):
    corruption_jobs(runs, ["fog"], [3]).run("sequential")
    together = {run.name: read_records(run.corruptions_file) for run in runs}
    for run in runs:
        run.corruptions_file.unlink()
        corruption_jobs([run], ["fog"], [3]).run("sequential")
        assert read_records(run.corruptions_file) == together[run.name]


def test_the_table_prefers_more_images(runs, root):
    corruption_jobs(runs, TYPES, [1], images=10).run("sequential")
    corruption_jobs(runs, ["fog"], [1]).run("sequential")
    examples = {(line["corruption"], line["examples"]) for line in corruption_records(root)}
    assert examples == {("fog", 60), ("shot_noise", 10)}


def test_mistakes_are_refused(runs):
    with pytest.raises(UnknownNameError, match="'fog'"):
        corruption_jobs(runs, ["fogg"], [1])
    with pytest.raises(InputError, match="finished run"):
        corruption_jobs([], ["fog"], [1])
    with pytest.raises(InputError, match="--corruptions"):
        corruption_records(runs[0].path.parent)
