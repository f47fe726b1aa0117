"""`totalcal-lab results` as people type it."""

from typer.testing import CliRunner

from totalcal_lab.cli.app import app
from totalcal_lab.records.store import write_lines

RECORD = {
    "task": "fashion",
    "preset": "paper",
    "model": "etp",
    "seed": 0,
    "epochs": 1,
    "settings": {},
    "error": 0.1,
    "config": "a",
}


def test_a_stale_page_fails_the_check_and_is_mended_by_writing(tmp_path):
    write_lines(tmp_path / "r.jsonl", [RECORD])
    page = tmp_path / "page.md"
    page.write_text("<!-- results: scores r.jsonl error -->\n<!-- end of results -->\n")
    runner = CliRunner()
    assert runner.invoke(app, ["results", "write", str(page), "--check"]).exit_code == 1
    assert "error" not in page.read_text().splitlines()[1].lower()
    assert runner.invoke(app, ["results", "write", str(page)]).exit_code == 0
    assert "10.00" in page.read_text()
    assert runner.invoke(app, ["results", "write", str(page), "--check"]).exit_code == 0
