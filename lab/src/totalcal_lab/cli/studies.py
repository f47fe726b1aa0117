"""`totalcal-lab toy`: the paper's two toys. `totalcal-lab truth`: every model where the truth is known."""

import json
from pathlib import Path

import typer

from totalcal.cli import FIGURE, Example
from totalcal_lab.cli.app import app

toy = typer.Typer(no_args_is_help=True, help="The paper's two toys (appendix B), trained and drawn.")
app.add_typer(toy, name="toy", rich_help_panel="Learn")

_Seed = typer.Option(0, help="Seed of the data, the net and the draws.")
_Epochs = typer.Option(400, min=1, help="The paper's number is the default.")
_FIGURE = "The figure: .png, .svg or .pdf."
_Json = typer.Option(False, "--json", help="Print the numbers as JSON.")


@toy.command("gaussians", epilog=Example("totalcal-lab toy gaussians --out two-classes.png"))
def gaussians(
    out: Path = typer.Option(Path("toy-gaussians.png"), callback=FIGURE, help=_FIGURE),
    seed: int = _Seed,
    epochs: int = _Epochs,
    as_json: bool = _Json,
) -> None:
    """Two overlapping classes on a line: where the memory places its evidence (appendix B.1)."""
    _run("gaussians", out, seed, epochs, as_json)


@toy.command("iris", epilog=Example("totalcal-lab toy iris --seed 1 --json"))
def iris(
    out: Path = typer.Option(Path("toy-iris.png"), callback=FIGURE, help=_FIGURE),
    seed: int = _Seed,
    epochs: int = _Epochs,
    as_json: bool = _Json,
) -> None:
    """Iris on two principal components: a map of the evidence for each species (appendix B.2)."""
    _run("iris", out, seed, epochs, as_json)


def _run(name: str, out: Path, seed: int, epochs: int, as_json: bool) -> None:
    from totalcal_lab.studies.toys import draw_toy, numbers, run_toy

    study = run_toy(name, seed, epochs)
    draw_toy(study, out)
    found = numbers(study)
    if as_json:
        typer.echo(json.dumps({**found._asdict(), "figure": str(out)}))
        return
    typer.echo(f"{out}: {found.accuracy:.0%} of the training points are predicted right.")
    typer.echo(f"right class has most evidence, away from the boundary: {found.right_class:.0%} of inputs")
    typer.echo(f"rank correlation of spread and distance from the boundary: {found.spread_correlation:.2f}")


truth = typer.Typer(
    no_args_is_help=True, help="Models where the truth is known, or known from people's votes."
)
app.add_typer(truth, name="truth", rich_help_panel="Judge")

_DataDir = typer.Option(None, "--data-dir", help="A folder that holds sets, each in a folder of its name.")
_Records = typer.Option(None, "--records", help="Write what was measured to this file, name.jsonl.")


@truth.command("generated", epilog=Example("totalcal-lab truth generated --figure truth.png"))
def generated(
    seeds: int = typer.Option(3, min=1, help="How many training sets and initial weights per size."),
    quick: bool = typer.Option(
        False, "--quick", help="A few steps on the smallest task: to see that it runs."
    ),
    jobs: int = typer.Option(2, min=1, help="How many processes."),
    figure: Path | None = typer.Option(
        None, "--figure", callback=FIGURE, help="Draw the figure to this file: .png, .svg or .pdf."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON object with every measurement."),
) -> None:
    """Measure every model and baseline on generated data, where class probabilities and density are known."""
    from totalcal_lab.studies.truth import QUICK, StudyPlan, measured
    from totalcal_lab.studies.truth_report import to_json, to_text

    plan = (QUICK if quick else StudyPlan())._replace(seeds=seeds)
    found = measured(plan, jobs)
    typer.echo(to_json(found, plan) if as_json else to_text(found, plan))
    if figure is not None:
        from totalcal_lab.studies.truth_report import draw_truth

        draw_truth(found, plan, figure)


@truth.command("people", epilog=Example("totalcal-lab truth people runs --records people.jsonl"))
def people(
    runs: Path = typer.Argument(..., help="A folder of runs on CIFAR-10."),
    records: Path | None = _Records,
    data_dir: Path | None = _DataDir,
    figure: Path | None = typer.Option(None, "--figure", callback=FIGURE, help=_FIGURE),
) -> None:
    """Judge CIFAR-10 nets, calibrated or not, by how people voted on its test images (CIFAR-10H)."""
    from totalcal.report import as_text
    from totalcal_lab.grid.people import judge_people
    from totalcal_lab.records.folders import finished_runs
    from totalcal_lab.records.people import TERMS, draw_people, people_table
    from totalcal_lab.records.store import write_lines

    found = list(judge_people(list(finished_runs(runs)), data_dir))
    typer.echo("\n\n".join(as_text(people_table(found, *columns)) for columns in ((), (TERMS,))))
    if records is not None:
        write_lines(records, found)
    if figure is not None:
        draw_people(found, figure)


@truth.command("sizes", epilog=Example("totalcal-lab truth sizes digits --records sizes.jsonl"))
def sizes(
    tasks: list[str] | None = typer.Argument(
        None, help="plane, digits, fashion; all of them if none is given."
    ),
    records: Path = typer.Option(
        Path("sizes.jsonl"), "--records", help="Add lines to this file; those that it has are not made again."
    ),
    seeds: int = typer.Option(1, min=1, help="How many training sets and initial weights per size."),
    data_dir: Path | None = _DataDir,
    figure: Path | None = typer.Option(None, "--figure", callback=FIGURE, help=_FIGURE),
) -> None:
    """Train every model on ever more rows: do the reducible and the irreducible term vanish?"""
    from totalcal.errors import UnknownNameError
    from totalcal.report import as_text
    from totalcal_lab.records.sizes import draw_sizes, sizes_table
    from totalcal_lab.records.store import append, read_lines
    from totalcal_lab.studies.sizes import SWEEPS, measure_sizes

    for name in tasks or SWEEPS:
        if name not in SWEEPS:
            raise UnknownNameError("task", name, SWEEPS)
    for name in tasks or SWEEPS:
        for seed in range(seeds):
            made = [
                (line["examples"], line["model"])
                for line in read_lines(records)
                if (line["task"], line["seed"]) == (name, seed)
            ]
            for line in measure_sizes(name, seed, made, data_dir):
                append(records, line)
    found = read_lines(records)
    typer.echo(as_text(sizes_table(found)))
    if figure is not None:
        draw_sizes(found, figure)
