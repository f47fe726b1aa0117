"""What `import totalcal` promises, and what it costs."""

import subprocess
import sys

import totalcal

PUBLIC = {
    "ANPClassifier",
    "BNNClassifier",
    "Batch",
    "Decomposition",
    "EDLClassifier",
    "ENPClassifier",
    "ETPClassifier",
    "Gate",
    "LossTerms",
    "LossWeights",
    "MODELS",
    "Model",
    "Monitor",
    "NeuralProcessClassifier",
    "Pipeline",
    "PredictionSets",
    "Predictive",
    "Predictor",
    "Preprocessing",
    "BASELINES",
    "SoftmaxClassifier",
    "TuringProcess",
    "Verdict",
    "__version__",
    "anp",
    "bnn",
    "calibrate",
    "calibrate_probabilities",
    "corrupt",
    "edl",
    "enp",
    "etp",
    "evaluate",
    "export",
    "fit",
    "fit_wrapped",
    "load",
    "neural_process",
    "remember",
    "save",
    "softmax",
    "train",
    "wrap",
}


def test_the_public_names_are_these_and_all_resolve() -> None:
    assert set(totalcal.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(totalcal, name) is not None


def test_rooms_resolve_without_an_import_of_their_own() -> None:
    code = "import totalcal; totalcal.data.load; totalcal.backbones.mlp; totalcal.scores.ece"
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
