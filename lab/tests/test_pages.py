"""Pages that show records, and the tables they ask for: gaps to the paper by hand, any keys."""

import math

import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal.report.compare import Summary
from totalcal_lab.pages import (
    BLOCKS,
    fill,
    filled,
    gap,
    pages_beneath,
    paper_table,
    scores_table,
    stale_pages,
)
from totalcal_lab.records.progress import gather
from totalcal_lab.records.store import write_lines


def page_with(folder, request, name="page.md"):
    page = folder / name
    page.write_text(f"Before.\n\n<!-- results: {request} -->\nSTALE\n<!-- end of results -->\n\nAfter.\n")
    return page


def test_a_table_of_the_domain_benchmark_may_be_of_some_models_only(tmp_path, make_record):
    told = {"ood": "mnist", "nearness": "far", "auroc_by_entropy": 0.7}
    lines = [make_record(model=model, **told) for model in ("softmax", "edl", "etp")]
    write_lines(tmp_path / "r.jsonl", lines)
    write_lines(tmp_path / "r.domain.jsonl", lines)
    page = page_with(tmp_path, "domain r.jsonl panel softmax etp")
    fill([page])
    assert ": softmax" in page.read_text()
    assert ": etp" in page.read_text()
    assert ": edl" not in page.read_text()
    with pytest.raises(InputError, match="is of bnn"):
        fill([page_with(tmp_path, "domain r.jsonl panel bnn")])
    with pytest.raises(InputError, match="name tables"):
        fill([page_with(tmp_path, "domain r.jsonl etp")])


def test_a_block_is_filled_and_what_stands_around_it_stays(tmp_path, make_record):
    write_lines(tmp_path / "r.jsonl", [make_record(error=0.123)])
    page = page_with(tmp_path, "scores r.jsonl error")
    assert fill([page]) == [page]
    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "12.3" in text
    assert "STALE" not in text
    assert stale_pages([page]) == []


def test_a_page_is_stale_when_a_figure_was_touched_or_a_record_changed(tmp_path, make_record):
    records, page = tmp_path / "r.jsonl", page_with(tmp_path, "scores r.jsonl error")
    write_lines(records, [make_record(error=0.12)])
    fill([page])
    text = page.read_text()
    page.write_text(text.replace("12.00", "11.00"))
    assert stale_pages([page]) == [page]
    page.write_text(text)
    write_lines(records, [make_record(error=0.13)])
    assert stale_pages([page]) == [page]


@pytest.mark.parametrize("name", sorted(BLOCKS.keys() - {"people", "sizes"}))
def test_every_block_is_made_of_gathered_runs(tmp_path, finish_run, name):
    for model in ("softmax", "etp"):
        finish_run(tmp_path / "runs", model=model, corruptions=2, ood_sets=2)
    gather(tmp_path / "runs", tmp_path / "r.jsonl")
    write_lines(tmp_path / "h.jsonl", [])
    arguments = {"scores": "error", "domain": "panel", "paper": "h.jsonl"}.get(name, "")
    text = filled(page_with(tmp_path, f"{name} r.jsonl {arguments}"))
    assert "etp" in text
    assert "STALE" not in text


def test_predictors_stand_beside_people_with_means_over_seeds(tmp_path):
    common = {"task": "cifar10", "settings": {}, "epochs": 1}
    lines = [
        {**common, "preset": "laptop", "model": "etp", "form": "calibrated", "seed": seed, "people_ece": ece}
        for seed, ece in ((0, 0.01), (1, 0.03))
    ]
    lines.append(
        {**common, "preset": "people", "model": "one person", "form": "", "seed": 0, "people_nll": 0.4}
    )
    write_lines(tmp_path / "r.jsonl", lines)
    text = filled(page_with(tmp_path, "people r.jsonl"))
    assert text.index("one person") < text.index("etp (calibrated)")
    assert "2.0 ± 1.4" in text
    assert "0.400" in text


def test_scores_are_those_of_tasks_that_have_all_of_the_keys(tmp_path, make_record):
    both = {"auroc/near": 0.6, "auroc/far": 0.7}
    lines = [make_record(task="cifar100", **both), make_record(task="cifar10", **{"auroc/near": 0.5})]
    write_lines(tmp_path / "r.jsonl", lines)
    text = filled(page_with(tmp_path, "scores r.jsonl auroc/near auroc/far"))
    assert "cifar100" in text
    assert "cifar10 " not in text
    with pytest.raises(InputError, match="auroc/fra"):
        filled(page_with(tmp_path, "scores r.jsonl auroc/near auroc/fra"))


def test_a_folder_means_all_of_its_pages(tmp_path):
    pages = [tmp_path / "a.md", tmp_path / "deep" / "b.md"]
    for page in pages:
        page.parent.mkdir(exist_ok=True)
        page.write_text("no block\n")
    assert pages_beneath([tmp_path]) == pages
    with pytest.raises(InputError, match="nowhere"):
        pages_beneath([tmp_path / "nowhere.md"])


def test_what_cannot_be_filled_is_named(tmp_path, make_record):
    write_lines(tmp_path / "r.jsonl", [make_record()])
    with pytest.raises(UnknownNameError, match="scoers"):
        filled(page_with(tmp_path, "scoers r.jsonl"))
    with pytest.raises(InputError, match="gather"):
        filled(page_with(tmp_path, "scores none.jsonl error"))
    page = tmp_path / "open.md"
    page.write_text("<!-- results: scores r.jsonl error -->\n")
    with pytest.raises(InputError, match="not closed"):
        filled(page)


def test_a_gap_counts_the_spread_of_both_sides():
    ours, theirs = Summary(0.10, 0.03, 5), Summary(0.06, 0.04, 10)
    assert gap("error", ours, theirs) == pytest.approx(0.04 / math.sqrt((0.0009 + 0.0016) / 2))


def test_one_seed_of_ours_has_no_spread_to_count():
    assert gap("error", Summary(0.10, math.nan, 1), Summary(0.06, 0.04, 10)) == pytest.approx(1.0)


def test_a_spread_that_was_rounded_to_nothing_still_counts():
    assert gap("nll", Summary(0.30, math.nan, 1), Summary(0.29, 0.0, 10)) == pytest.approx(math.sqrt(12))


def test_the_papers_table_is_whole_with_ours_where_it_was_run_and_the_hours_of_every_run(make_record):
    records = [make_record("etp"), make_record("softmax"), make_record("etp", seed=1)]
    hours = [make_record("bnn", task="cifar10", hours=5.04, hours_bf16=2.5)]
    table = paper_table(records, hours)
    assert [len(group.rows) for group in table.groups] == [4] * 5
    shown = {
        (group.title, row[0].text): [entry.text for entry in row[1:]]
        for group in table.groups
        for row in group.rows
    }
    error, nll, _, auroc, _ = shown["fashion (paper)", "etp"]
    assert error.startswith("▼ +")
    assert nll.startswith("▲ −")
    assert auroc.startswith("▼ +0.0")
    assert shown["cifar10 (not run)", "bnn"][0] == "(15.3 ± 0.3)"
    assert shown["cifar10 (not run)", "bnn"][-1] == "5.0 / 2.5"


def test_a_row_is_a_mean_over_seeds_and_names_its_settings(make_record):
    records = [make_record(seed=seed, nll=nll) for seed, nll in ((0, 0.2), (1, 0.4))]
    records += [make_record(seed=0, nll=0.9, settings={"weight_kl_scale": 0})]
    (group,) = scores_table(records, ["nll"]).groups
    shown = {row[0].text: [entry.text for entry in row[1:]] for row in group.rows}
    assert shown == {"etp": ["0.300 ± 0.141", "2"], "etp (weight_kl_scale=0)": ["0.900", "1"]}
    assert [row[1].bold for row in group.rows] == [True, False]
