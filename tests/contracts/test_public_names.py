"""What `import totalcal` promises, and what it costs."""

import subprocess
import sys

import pytest

import totalcal

JOURNEY = {"calibrate", "etp", "fit", "remember", "evaluate", "save", "load", "Model", "Predictive"}


def test_every_public_name_resolves() -> None:
    assert set(totalcal.__all__) >= JOURNEY
    for name in totalcal.__all__:
        assert getattr(totalcal, name) is not None


def test_a_name_that_is_none_is_refused_with_where_to_begin() -> None:
    with pytest.raises(AttributeError, match=r"'wrap'.*totalcal\.calibrate\(net"):
        totalcal.wrap  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(totalcal, "wrap")


def test_rooms_resolve_without_an_import_of_their_own() -> None:
    code = "import totalcal; totalcal.data.digits; totalcal.nets.mlp; totalcal.scores.ece"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, totalcal; print([m for m in ('torch', 'sklearn', 'scipy', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_using_a_model_imports_torch_and_nothing_else_heavy() -> None:
    code = (
        "import sys, totalcal; totalcal.etp; heavy = ('sklearn', 'scipy', 'matplotlib', 'pandas', "
        "'lightning_fabric', 'typer'); print([m for m in heavy if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_of_a_room_resolves() -> None:
    for room in (totalcal.data, totalcal.scores, totalcal.baselines, totalcal.models):
        for name in room.__all__:
            assert getattr(room, name) is not None, f"{room.__name__}.{name}"
