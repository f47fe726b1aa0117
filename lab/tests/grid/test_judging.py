"""Runs of every model and baseline, run for one epoch on a few digits."""

import shutil

import pytest
import torch

from totalcal.errors import CheckpointError
from totalcal_lab.grid.building import trained_process
from totalcal_lab.grid.grid import Grid, grid_jobs, models_named
from totalcal_lab.records.folders import RunFolder
from totalcal_lab.records.store import read_records

TINY = {"epochs": 1, "train_limit": 200, "test_limit": 60, "ood_limit": 50, "joint_sets": 3}
EVERYTHING = models_named("all,baselines")
RESULTS = ("config.json", "history.jsonl", "records.jsonl")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One seed of every model and baseline: model → folder."""
    jobs = grid_jobs(
        Grid("digits", "laptop", TINY).configurations(EVERYTHING, 1), tmp_path_factory.mktemp("runs")
    )
    jobs.run("sequential")
    assert [folder.failures for folder in jobs.folders() if not folder.is_done] == []
    return {folder.config["model"]: folder for folder in jobs.folders()}


@pytest.mark.parametrize("model", EVERYTHING)
def test_a_record_says_what_ran_what_came_out_and_how_to_trust_it(runs, model):
    (record,) = read_records(runs[model].records_file)
    assert (record["task"], record["preset"], record["model"], record["seed"]) == (
        "digits",
        "laptop",
        model,
        0,
    )
    assert record["epochs"] == 1
    assert record["config"] == runs[model].name
    scores = {"error", "nll", "brier", "ece", "ece_100", "auroc", "auroc/letters"}
    trust = {
        "totalcal",
        "torch",
        "draws",
        "bins",
        "examples",
        "sha256/train",
        "sha256/test",
        "sha256/letters",
    }
    assert scores | trust <= record.keys()
    assert 0 <= record["error"] <= 1
    assert record["examples"] == 60
    assert {"epochs": 1, "test_limit": 60}.items() <= record["settings"].items()


def test_the_joint_score_is_there_where_a_joint_is(runs):
    have = {model for model, folder in runs.items() if "joint_nll" in read_records(folder.records_file)[0]}
    assert have == set(EVERYTHING)


def test_a_model_that_needs_a_context_gets_training_rows(runs):
    assert read_records(runs["anp"].records_file)[0]["context_rows"] == 50


def test_temperature_takes_the_plain_net_as_it_is(runs):
    plain, scaled = (read_records(runs[name].records_file)[0] for name in ("softmax", "temperature"))
    assert scaled["error"] == plain["error"]
    assert scaled["held_out_nll"] <= plain["held_out_nll"]
    assert not runs["temperature"].checkpoints.exists()


def test_running_again_skips_what_is_done_and_repeats_what_is_not_bit_for_bit(runs, tmp_path):
    configs = Grid("digits", "laptop", TINY).configurations(["softmax", "etp"], 1)
    jobs = grid_jobs(configs, tmp_path)
    jobs.run("sequential")
    jobs.run("sequential")
    for folder in jobs.folders():
        assert folder.timing.starts == 1
        for name in RESULTS:
            assert (folder.path / name).read_bytes() == (
                runs[folder.config["model"]].path / name
            ).read_bytes()


def test_a_run_stopped_while_judging_leaves_one_record(runs, tmp_path):
    (config,) = Grid("digits", "laptop", TINY).configurations(["softmax"], 1)
    folder = RunFolder(tmp_path / config.name)
    folder.path.mkdir()
    (folder.records_file).write_text('{"task": "digi')
    jobs = grid_jobs([config], tmp_path)
    jobs.run("sequential")
    assert folder.records_file.read_bytes() == runs["softmax"].records_file.read_bytes()


def test_a_damaged_net_is_never_built_from_and_is_trained_again_to_the_same_bits(runs, tmp_path):
    shutil.copytree(runs["softmax"].path.parent, tmp_path / "runs")
    configs = Grid("digits", "laptop", TINY).configurations(["softmax", "temperature"], 1)
    plain, scaled = (RunFolder(tmp_path / "runs" / config.name) for config in configs)
    net = plain.checkpoints / "last.pt"
    content = bytearray(net.read_bytes())
    content[-100] ^= 1
    net.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"last\.pt is not what the run wrote"):
        trained_process(plain)
    scaled.done_file.unlink()
    jobs = grid_jobs(configs, tmp_path / "runs")
    assert not plain.is_done
    jobs.run("sequential")
    for again, before in ((plain, runs["softmax"]), (scaled, runs["temperature"])):
        assert again.is_done
        assert [(again.path / name).read_bytes() for name in RESULTS if (before.path / name).exists()] == [
            (before.path / name).read_bytes() for name in RESULTS if (before.path / name).exists()
        ]
    assert plain.set_aside == ["checkpoints/last.pt.damaged"]
    assert plain.damaged_nets == []


def test_a_net_that_is_lost_does_not_give_way_to_the_epoch_before(tmp_path):
    configs = Grid("digits", "laptop", TINY | {"epochs": 2}).configurations(["softmax", "temperature"], 1)
    jobs = grid_jobs(configs, tmp_path)
    jobs.run("sequential")
    plain, scaled = jobs.folders()
    record = scaled.records_file.read_bytes()
    (plain.checkpoints / "last.pt").unlink()
    with pytest.raises(CheckpointError, match=r"last\.pt is missing"):
        trained_process(plain)
    scaled.done_file.unlink()
    grid_jobs(configs, tmp_path).run("sequential")
    assert scaled.records_file.read_bytes() == record


def test_a_stopped_run_whose_checkpoints_are_all_damaged_is_trained_from_the_start(runs, tmp_path):
    (config,) = Grid("digits", "laptop", TINY).configurations(["softmax"], 1)
    stopped = RunFolder(tmp_path / config.name)
    jobs = grid_jobs([config], tmp_path)
    stopped.checkpoints.mkdir()
    for name in ("last.pt", "previous.pt"):
        (stopped.checkpoints / name).write_bytes(b"?")
    with pytest.warns(UserWarning, match="from the start"):
        jobs.run("sequential")
    assert stopped.is_done
    assert stopped.records_file.read_bytes() == runs["softmax"].records_file.read_bytes()
    assert stopped.set_aside == ["checkpoints/last.pt.damaged", "checkpoints/previous.pt.damaged"]


def test_a_configuration_changed_in_a_stopped_run_is_not_vouched_for(runs, tmp_path):
    (config,) = Grid("digits", "laptop", TINY).configurations(["softmax"], 1)
    stopped = RunFolder(tmp_path / config.name)
    grid_jobs([config], tmp_path)
    stopped.config_file.write_text(stopped.config_file.read_text().replace('"seed": 0', '"seed": 1'))
    grid_jobs([config], tmp_path).run("sequential")
    assert stopped.config_file.read_bytes() == runs["softmax"].config_file.read_bytes()


def test_autocast_changes_the_training_and_stands_in_the_record(runs, tmp_path):
    jobs = grid_jobs(
        Grid("digits", "laptop", {**TINY, "precision": "bf16-mixed"}).configurations(["softmax"], 1), tmp_path
    )
    jobs.run("sequential")
    (folder,) = jobs.folders()
    (half,), (whole,) = (read_records(each.records_file) for each in (folder, runs["softmax"]))
    assert half["settings"] == {**whole["settings"], "precision": "bf16-mixed"}
    assert half["nll"] != whole["nll"]
    assert half["nll"] == pytest.approx(whole["nll"], abs=0.05)
    weights = trained_process(folder).state_dict().values()
    assert all(values.dtype == torch.float32 for values in weights if values.is_floating_point())


def test_a_run_is_judged_as_its_file_would_answer_and_says_so(tmp_path):
    overrides = {**TINY, "judging.draws": "auto"}
    jobs = grid_jobs(Grid("digits", "laptop", overrides).configurations(["bnn"], 1), tmp_path)
    jobs.run("sequential")
    (record,) = read_records(jobs.folders()[0].records_file)
    assert (record["prediction"], record["draws"]) in {("moments", "moments"), ("ten draws", 10)}
    assert record["settings"]["judging.draws"] == "auto"
