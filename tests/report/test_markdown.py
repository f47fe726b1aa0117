"""Pages that show records."""

import pytest

from totalcal.errors import InputError, UnknownNameError
from totalcal.records.progress import gather
from totalcal.records.store import write_lines
from totalcal.report.markdown import BLOCKS, fill, filled, pages_beneath, stale_pages


def page_with(folder, request, name="page.md"):
    page = folder / name
    page.write_text(f"Before.\n\n<!-- results: {request} -->\nSTALE\n<!-- end of results -->\n\nAfter.\n")
    return page


def test_a_block_is_filled_and_what_stands_around_it_stays(tmp_path, make_record):
    write_lines(tmp_path / "r.jsonl", [make_record(error=0.123)])
    page = page_with(tmp_path, "table r.jsonl")
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


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_is_made_of_gathered_runs(tmp_path, finish_run, name):
    for model in ("softmax", "etp"):
        finish_run(tmp_path / "runs", model=model, corruptions=2, ood_sets=2)
    gather(tmp_path / "runs", tmp_path / "r.jsonl")
    arguments = {"scores": "error", "choice": "error", "domain": "panel"}.get(name, "")
    text = filled(page_with(tmp_path, f"{name} r.jsonl {arguments}"))
    assert "etp" in text
    assert "STALE" not in text


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
    with pytest.raises(UnknownNameError, match="tabel"):
        filled(page_with(tmp_path, "tabel r.jsonl"))
    with pytest.raises(InputError, match="gather"):
        filled(page_with(tmp_path, "table none.jsonl"))
    page = tmp_path / "open.md"
    page.write_text("<!-- results: table r.jsonl -->\n")
    with pytest.raises(InputError, match="not closed"):
        filled(page)
