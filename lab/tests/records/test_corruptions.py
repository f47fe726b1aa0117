"""Table 4 out of records."""

import pytest

from totalcal_lab.records.corruptions import corruption_columns, corruption_lines, corruption_table
from totalcal_lab.records.formats import as_markdown


def _line(model, type, seed, error, severity=1):
    return {
        "task": "fashion",
        "preset": "paper",
        "model": model,
        "seed": seed,
        "settings": {},
        "corruption": type,
        "severity": severity,
        "error": error,
        "ece": error / 2,
        "ece_100": error / 2,
        "examples": 100,
        "config": f"{model}{seed}",
    }


@pytest.fixture
def columns():
    """Means over seeds: fog 0.1, snow 0.3."""
    errors = {("fog", 0): 0.08, ("fog", 1): 0.12, ("snow", 0): 0.25, ("snow", 1): 0.35}
    return corruption_columns(_line("etp", type, seed, error) for (type, seed), error in errors.items())


def test_seeds_are_averaged_before_types(columns):
    (line,) = [line for line in corruption_lines(columns) if line["score"] == "error"]
    assert line["mean"] == pytest.approx(0.2)
    assert line["std"] == pytest.approx(0.1 * 2**0.5)
    assert line["types"] == 2


def test_three_standard_deviations_are_printed_and_said_to_be_over_types(columns):
    shown = as_markdown(corruption_table(columns))
    assert "20.0 ± 42.4" in shown
    assert "over the types of corruption" in shown
    assert "2 types, 100 images, 2 seeds" in shown


def test_the_papers_figures_stand_beside_ours(columns):
    (row,) = [row for row in as_markdown(corruption_table(columns)).splitlines() if row.startswith("|etp")]
    assert "**9.5 ± 2.8**" in row
    assert "**3.0 ± 1.0**" in row


def test_a_severity_on_its_way_is_left_out() -> None:
    """Its mean would be over other types than that of the severities before it."""
    done = [_line("etp", type, 0, 0.1, severity=1) for type in ("fog", "snow")]
    column = corruption_columns([*done, _line("etp", "fog", 0, 0.1, severity=2)])[0]
    assert {severity for severity, _ in column.summaries} == {1}
