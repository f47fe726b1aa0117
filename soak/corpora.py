"""What the mutator is let loose on: one `Subject` per reader, its corpus made by the code itself.

A new reader is one line of `SUBJECTS`: its name, a function that makes a sound file in a folder, and one
that reads it. `inner` and `wrap` let the mutator also damage what is inside of a container whose checksum
would else stop every mutation at the door.
"""

import contextlib
import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from totalcal.errors import InputError
from totalcal.files import reading


class Subject(NamedTuple):
    """A reader: `make` writes a sound file and says which one is to be damaged, `read` reads it."""

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]
    inner: Callable[[bytes], bytes] | None = None  # from a sound file to its inside
    wrap: Callable[[bytes, bytes], bytes] | None = None  # the way back, with the sound file at hand
    sealed: bool = False  # whether what is read must be what was written, if it is read at all


RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 12, 12), dtype=np.uint8)
LABELS = np.arange(6) % 3


def written(name: str, data: bytes | str) -> Callable[[Path], Path]:
    """A maker of one file."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return make


def bytes_of(write: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """What a function writes to a stream."""
    stream = io.BytesIO()
    write(stream, *arguments, **options)
    return stream.getvalue()


# -- containers


def npz_inner(data: bytes) -> bytes:
    """The first array."""
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        return bundle.read(bundle.namelist()[0])


def npz_wrap(inner: bytes, sound: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sound)) as bundle, zipfile.ZipFile(stream, "w") as changed:
        for number, name in enumerate(bundle.namelist()):
            changed.writestr(name, bundle.read(name) if number else inner)
    return stream.getvalue()


def one_member(path: Path) -> bytes:
    """A sound file several times over is one of several members, which gzip joins by its standard."""
    content, once = reading.read_bytes(path), JSON.encode()
    return once if content and content == once * (len(content) // len(once)) else content


def gzip_wrap(inner: bytes, sound: bytes = b"") -> bytes:
    return gzip.compress(inner, 1, mtime=0)


# -- pictures


def picture(kind: str, mode: str = "RGB", **options: Any) -> Callable[[Path], Path]:
    from PIL import Image

    shape = (12, 16, 3) if mode == "RGB" else (12, 16)
    image = Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)).convert(mode)
    return written(f"a.{kind.lower()}", bytes_of(lambda stream: image.save(stream, kind, **options)))


def pixels(path: Path) -> bytes:
    return np.asarray(reading.read_picture(path)).tobytes()


# -- data sets


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def idx_set(folder: Path) -> Path:
    written("t10k-labels-idx1-ubyte", idx(LABELS))(folder)
    return written("t10k-images-idx3-ubyte.gz", gzip_wrap(idx(IMAGES)))(folder)


def read_idx_set(path: Path) -> Any:
    from totalcal_lab.data.readers import idx_reader

    return idx_reader(3)(path.parent, "test")


def read_cifar(path: Path) -> Any:
    from totalcal_lab.data.readers import read_records

    return read_records(path, 1, 10)


def matlab(folder: Path) -> Path:
    from scipy.io import savemat

    images = np.tile(np.arange(3, dtype=np.uint8), (32, 32, 3, 1))
    arrays = {"X": images, "y": np.array([[1], [2], [10]], dtype=np.uint8)}
    return written("test_32x32.mat", bytes_of(savemat, arrays, do_compression=True))(folder)


def read_svhn_set(path: Path) -> Any:
    from totalcal_lab.data.readers import read_svhn

    return read_svhn(path.parent, "test")


def tiny_imagenet_set(folder: Path) -> Path:
    from PIL import Image

    images = folder / "val" / "images"
    images.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        Image.new("RGB", (64, 64), (number, 2, 3)).save(images / f"val_{number}.JPEG")
    written("wnids.txt", "n01\nn02\n")(folder)
    return written("val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\nval_1.JPEG\tn02\t0\t0\n")(folder)


def tiny_imagenet_picture(folder: Path) -> Path:
    tiny_imagenet_set(folder)
    return folder / "val" / "images" / "val_0.JPEG"


def read_tiny_imagenet_set(path: Path) -> Any:
    from totalcal_lab.data.readers import read_tiny_imagenet

    folder = next(parent for parent in path.parents if (parent / "wnids.txt").exists())
    return read_tiny_imagenet(folder, "test")


def imdb_set(folder: Path) -> Path:
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            written(f"aclImdb/{split}/{label}/0_1.txt", f"A {label} film, <br />isn't it: 7/10.")(folder)
    return folder / "aclImdb" / "test" / "neg" / "0_1.txt"


def read_imdb_set(path: Path) -> Any:
    from totalcal_lab.data.text import read_imdb

    return read_imdb(path.parents[3], "test")


def decoded(part: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from totalcal.data import Arrays
        from totalcal_lab.data.cache import write_decoded

        write_decoded(folder / "here", Arrays(IMAGES, LABELS))
        return folder / "here" / part

    return make


def read_decoded_set(path: Path) -> Any:
    from totalcal_lab.data.cache import read_decoded

    found = read_decoded(path.parent)
    return None if found is None else (found.arrays.inputs.tobytes(), found.statistics)


def own_folder(folder: Path) -> Path:
    picture("PNG")(folder / "pictures" / "cat")
    return picture("PNG")(folder / "pictures" / "dog")


def read_own_folder(path: Path) -> Any:
    from totalcal.data import from_image_folder

    return from_image_folder(path.parents[1], size=(8, 8))


def frost(folder: Path) -> Path:
    from PIL import Image

    Image.new("RGB", (200, 200), (200, 210, 220)).save(folder / "frost1.png")
    return folder / "frost1.png"


def read_frost(path: Path) -> Any:
    from totalcal_lab.corruptions import corrupt

    return corrupt(np.zeros((1, 32, 32, 3), np.uint8), "frost", 3, frost_dir=path.parent)


def corruptible(path: Path) -> Any:
    from totalcal_lab.corruptions.stream import read_images

    return read_images(path)


def outputs(folder: Path) -> Path:
    np.savez(folder / "a.npz", probabilities=np.full((6, 3), 1 / 3), labels=LABELS)
    return folder / "a.npz"


def table(kind: str) -> Callable[[Path], Path]:
    """Probabilities and labels in columns."""

    def make(folder: Path) -> Path:
        import pandas as pd

        path = folder / f"a.{kind}"
        frame = pd.DataFrame({"cat": np.linspace(0, 1, 6), "dog": np.linspace(1, 0, 6), "label": LABELS % 2})
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        return path

    return make


def read_labelled_rows(path: Path) -> Any:
    from totalcal.calibration.from_files import labelled_rows

    return labelled_rows(path)


def read_saved_outputs(path: Path) -> Any:
    from totalcal.scores.evaluate import evaluate_files

    return evaluate_files(path)


# -- models, predictions, runs


@cache
def model_bytes() -> bytes:
    """A model file with all that one can hold: classes, a gate, a monitor, preprocessing, a domain memory."""
    import tempfile

    import torch

    import totalcal
    from totalcal.data.preprocessing import Preprocessing
    from totalcal.decisions.monitor import Monitor, watched_scores
    from totalcal.nets import mlp

    torch.manual_seed(0)
    inputs = torch.randn(80, 4)
    labels = inputs[:, :3].argmax(1)
    model = totalcal.etp(mlp(4, 3, hidden=(8,)), num_classes=3)
    totalcal.remember(model, (inputs, labels), (inputs.flip(0), labels.flip(0)), progress=False)
    held_out = model.predict(inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.totalcal"
        totalcal.save(
            model,
            path,
            gate=totalcal.Gate.fitted(held_out, labels),
            classes=("cat", "dog", "eel"),
            preprocessing=Preprocessing((4,), torch.zeros(4), torch.ones(4), ("a", "b", "c", "d")),
            monitor=Monitor.start(watched_scores(held_out, labels)),
        )
        return path.read_bytes()


def model_file(folder: Path) -> Path:
    return written("model.totalcal", model_bytes())(folder)


def member(name: str) -> Callable[[bytes], bytes]:
    def inner(data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            return bundle.read(name)

    return inner


def with_member(name: str) -> Callable[[bytes, bytes], bytes]:
    def wrap(inner: bytes, sound: bytes) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(sound)) as bundle, zipfile.ZipFile(stream, "w") as changed:
            for each in bundle.namelist():
                changed.writestr(each, inner if each == name else bundle.read(each))
        return stream.getvalue()

    return wrap


DESCRIPTION = member("description.json"), with_member("description.json")
TENSORS = member("tensors.safetensors"), with_member("tensors.safetensors")


def _numbers_begin(tensors: bytes) -> int:
    return 8 + int.from_bytes(tensors[:8], "little")


def numbers(data: bytes) -> bytes:
    """Those in the tensors, behind the header that says which is which."""
    tensors = TENSORS[0](data)
    return tensors[_numbers_begin(tensors) :]


def with_numbers(inner: bytes, sound: bytes) -> bytes:
    """As many numbers as there were, so that more than their count is looked at."""
    tensors = TENSORS[0](sound)
    start = _numbers_begin(tensors)
    length = len(tensors) - start
    return TENSORS[1](tensors[:start] + inner[:length].ljust(length, b"\xff"), sound)


def used_model(path: Path) -> Any:
    """Load it, predict, decide and watch with it."""
    import totalcal
    from totalcal.decisions.monitor import watched_scores

    saved = totalcal.load(path)
    prediction = saved.predict(np.ones((3, 4)))
    assert np.isfinite(np.asarray(prediction.probabilities)).all()
    if saved.gate is not None:
        saved.gate(prediction)
    if saved.monitor is not None:
        saved.monitor.update(watched_scores(prediction))


def weights_of_model(path: Path) -> Any:
    import totalcal

    return {name: value.numpy().tobytes() for name, value in totalcal.load(path).process.state_dict().items()}


def summarised(path: Path) -> Any:
    from totalcal.files.container import summary

    return summary(path)


@cache
def onnx_bytes() -> bytes:
    import tempfile

    import torch

    import totalcal
    from totalcal.files.exporting.writing import export

    torch.manual_seed(0)
    model = totalcal.softmax(torch.nn.Linear(4, 3), num_classes=3)
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder) / "model.onnx", example=torch.randn(8, 4))
        return (Path(folder) / "model.onnx").read_bytes()


def onnx_file(folder: Path) -> Path:
    return written("model.onnx", onnx_bytes())(folder)


def opened_onnx(path: Path) -> Any:
    from totalcal.files.predicting.exported import open_exported

    return open_exported(path).description


ROWS = "a,b,c,d\n" + "".join(f"{n},{n / 7:.3f},-{n},1e{n}\n" for n in range(8))


def beside_a_model(name: str, data: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        model_file(folder)
        return written(name, data)(folder)

    return make


def columns_of_rows(kind: str) -> Callable[[Path], Path]:
    """The same numbers in columns."""

    def make(folder: Path) -> Path:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({name: np.arange(8) / (place + 1) for place, name in enumerate("abcd")})
        write = pa.parquet.write_table if kind == "parquet" else pa.feather.write_feather
        stream = io.BytesIO()
        write(table, stream)
        return beside_a_model(f"rows.{kind}", stream.getvalue())(folder)

    return make


@cache
def picture_model_bytes() -> bytes:
    import tempfile

    import torch

    import totalcal
    from totalcal.data.preprocessing import PictureSteps, Preprocessing
    from totalcal.nets import mlp

    torch.manual_seed(0)
    model = totalcal.softmax(mlp(64, 3, hidden=(4,)), num_classes=3)
    steps = Preprocessing((1, 8, 8), torch.zeros(1), torch.ones(1), pictures=PictureSteps((8, 8), False))
    with tempfile.TemporaryDirectory() as folder:
        totalcal.save(model, Path(folder) / "model.totalcal", preprocessing=steps)
        return (Path(folder) / "model.totalcal").read_bytes()


def manifest(folder: Path) -> Path:
    written("model.totalcal", picture_model_bytes())(folder)
    for name in ("one", "two"):
        picture("PNG")(folder / name)
    return written("rows.csv", "path,more\none/a.png,1\ntwo/a.png,2\n")(folder)


def listed_picture(folder: Path) -> Path:
    manifest(folder)
    return folder / "two" / "a.png"


def predicted_pictures(path: Path) -> Any:
    home = next(parent for parent in path.parents if (parent / "model.totalcal").exists())
    predicted(home / "rows.csv")


RAW = "size,colour\n" + "".join(f"{n / 7:.2f},{('red', 'blue', '')[n % 3]}\n" for n in range(8))


@cache
def pipeline_bytes() -> bytes:
    """A model behind steps of scikit-learn."""
    import tempfile

    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    import totalcal

    table = pd.DataFrame({"size": RNG.normal(size=40), "colour": ["red", "blue"] * 20})
    steps = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["colour"]), (SimpleImputer(), ["size"]), sparse_threshold=0
    )
    classifier = totalcal.ETPClassifier(max_epochs=1, hidden=(4,), draws=2, remember=False, random_state=0)
    model = totalcal.Pipeline([("columns", steps), ("etp", classifier)]).fit(table, np.arange(40) % 2)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.totalcal")
        return (Path(folder) / "model.totalcal").read_bytes()


def raw_rows(folder: Path) -> Path:
    written("model.totalcal", pipeline_bytes())(folder)
    return written("rows.csv", RAW)(folder)


def raw_columns(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.feather

    raw_rows(folder).unlink()
    table = pa.table({"size": np.arange(8) / 7, "colour": ["red", "blue", None, "red"] * 2})
    pa.feather.write_feather(table, folder / "rows.arrow")
    return folder / "rows.arrow"


def behind_steps(folder: Path) -> Path:
    raw_rows(folder)
    return folder / "model.totalcal"


def predicted_raw(path: Path) -> Any:
    predicted(path.with_name("rows.csv"))


def predicted(path: Path) -> Any:
    from totalcal.files.predicting.stream import predict_file

    home = path.parent
    for left in home.glob("out.csv*"):
        left.unlink()
    predict_file(home / "model.totalcal", path, home / "out.csv", workers=1)


def stopped_prediction(part: str) -> Callable[[Path], Path]:
    """What a kill left of a prediction: the table so far, and its progress."""

    def make(folder: Path) -> Path:
        from totalcal.files.predicting.stream import predict_file

        def stop(rows: int) -> None:
            if rows:
                raise KeyboardInterrupt

        inputs = beside_a_model("rows.csv", ROWS)(folder)
        with contextlib.suppress(KeyboardInterrupt):
            predict_file(
                folder / "model.totalcal", inputs, folder / "out.csv", chunk_size=3, workers=1, on_rows=stop
            )
        return folder / f"out.csv.{part}"

    return make


def resumed(path: Path) -> Any:
    from totalcal.files.predicting.stream import predict_file

    stopped = {each: each.read_bytes() for each in path.parent.glob("out.csv*")}
    try:
        inputs, output = path.with_name("rows.csv"), path.with_name("out.csv")
        predict_file(path.with_name("model.totalcal"), inputs, output, chunk_size=3, workers=1)
        return output.read_bytes()
    finally:  # as it was, for another try
        for each in path.parent.glob("out.csv*"):
            each.unlink()
        for each, content in stopped.items():
            each.write_bytes(content)


def watched_table(folder: Path) -> Path:
    path = beside_a_model("rows.csv", ROWS)(folder)
    predicted(path)
    path.unlink()
    return (folder / "out.csv").rename(folder / "predictions.csv")


def watched_columns(folder: Path) -> Path:
    from totalcal.files.predicting.stream import predict_file

    path = beside_a_model("rows.csv", ROWS)(folder)
    predict_file(folder / "model.totalcal", path, folder / "predictions.arrow", workers=1)
    return folder / "predictions.arrow"


def watched(path: Path) -> Any:
    from totalcal.decisions.watching import watch_file

    return watch_file(path, path.parent / "model.totalcal")


def body(kind: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        import torch

        from totalcal.data.preprocessing import Preprocessing
        from totalcal.serving.bodies import inference, rows_for_people
        from totalcal.serving.guard import RefusalError

        shape = (3, 12, 16) if kind.startswith("image") else (4,)
        steps = Preprocessing(shape, torch.zeros(shape), torch.ones(shape), None)
        try:
            if kind == "tensor":
                return inference(path.read_bytes(), steps, None, 100)
            return rows_for_people(path.read_bytes(), kind, steps, None, 100)
        except RefusalError as error:  # which the service answers with
            raise InputError(error.reason) from error

    return read


TENSOR = json.dumps(
    {
        "id": "7",
        "inputs": [{"name": "rows", "shape": [2, 4], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6, 7.5, 8]}],
    }
)


@cache
def checkpoint_bytes() -> bytes:
    import tempfile

    import torch

    import totalcal
    from totalcal.nets import mlp

    torch.manual_seed(0)
    model = totalcal.softmax(mlp(2, 2, hidden=(2,)), num_classes=2)
    data = torch.randn(8, 2), torch.arange(8) % 2
    with tempfile.TemporaryDirectory() as folder:
        totalcal.fit(model, data, epochs=1, batch_size=8, checkpoints=Path(folder), progress=False)
        return (Path(folder) / "last.pt").read_bytes()


def checkpoint(folder: Path) -> Path:
    return written("last.pt", checkpoint_bytes())(folder)


def read_a_checkpoint(path: Path) -> Any:
    from totalcal.training.checkpoint import read_checkpoint

    return {name: value.numpy().tobytes() for name, value in read_checkpoint(path).model.items()}


RECORD = {
    "task": "digits", "preset": "laptop", "model": "etp", "seed": 0, "epochs": 2, "settings": {"epochs": 2},
    "error": 0.1, "nll": 0.3, "ece": 0.02, "ece_100": 0.03, "auroc": 0.9, "auroc/letters": 0.9,
    "config": "abc", "majority_error": 0.9, "prediction": "ten draws", "reduced": True,
}  # fmt: skip


def run_folder(part: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from totalcal_lab.records.folders import RunFolder
        from totalcal_lab.records.store import append_line

        run = RunFolder(folder / "runs" / "abc")
        run.plan({key: RECORD[key] for key in ("task", "preset", "model", "seed", "epochs")} | {"needs": []})
        run.start()
        append_line(run.records_file, RECORD)
        append_line(run.history_file, {"epoch": 0, "loss": 1.5})
        run.finish()
        return run.path / part

    return make


def looked_at(path: Path) -> Any:
    """What status, table and a new plan make of a folder of runs."""
    from totalcal_lab.records.folders import RunFolder, damage_in_words, finished_runs, run_folders
    from totalcal_lab.records.store import read_records

    root = path.parents[1]
    for run in run_folders(root):
        _ = run.state, run.timing.seconds_in_all, run.timing.epochs_done, run.timing.deaths
    damage_in_words(root)
    found = [record for run in finished_runs(root) for record in read_records(run.records_file)]
    RunFolder(path.parent).plan({})
    return found or None


NPZ = bytes_of(np.savez, inputs=IMAGES, labels=LABELS, names=np.array(["a", "b"]))
ROWS_NPZ = bytes_of(np.savez, inputs=RNG.normal(size=(6, 4)))
NPY = bytes_of(np.save, RNG.normal(size=(3, 4)))
JSON = json.dumps({"a": [1, -2.5e3, None, True, {"b": 'words \u00e9 \\ "'}], "c": 12345678901234567890})
CIFAR = RNG.integers(0, 10, (2, 3073), dtype=np.uint8).tobytes()

SUBJECTS: dict[str, Subject] = {
    "text": Subject(written("a.txt", "zwölf Wörter\nund eines\n"), reading.read_text),
    "json": Subject(written("a.json", JSON), reading.read_json),
    "gzip": Subject(written("a.gz", gzip.compress(JSON.encode())), one_member, sealed=True),
    "npz": Subject(written("a.npz", NPZ), reading.read_npz, npz_inner, npz_wrap),
    "npy": Subject(written("a.npy", NPY), reading.read_npy),
    "npy, mapped": Subject(written("a.npy", NPY), reading.map_npy),
    "picture, png": Subject(picture("PNG"), pixels),
    "picture, jpeg": Subject(picture("JPEG"), pixels),
    "picture, gif": Subject(picture("GIF", "P"), pixels),
    "picture, bmp": Subject(picture("BMP"), pixels),
    "picture, tiff": Subject(picture("TIFF"), pixels),
    "picture, tiff lzw": Subject(picture("TIFF", compression="tiff_lzw"), pixels),
    "picture, webp": Subject(picture("WEBP"), pixels),
    "picture, ppm": Subject(picture("PPM"), pixels),
    "idx": Subject(idx_set, read_idx_set, gzip.decompress, gzip_wrap),
    "cifar": Subject(written("data_batch_1.bin", CIFAR), read_cifar),
    "matlab": Subject(matlab, read_svhn_set),
    "tiny imagenet, table": Subject(tiny_imagenet_set, read_tiny_imagenet_set),
    "tiny imagenet, picture": Subject(tiny_imagenet_picture, read_tiny_imagenet_set),
    "imdb": Subject(imdb_set, read_imdb_set),
    "cache, arrays": Subject(decoded("inputs.npy"), read_decoded_set, sealed=True),
    "cache, about": Subject(decoded("about.json"), read_decoded_set, sealed=True),
    "own pictures": Subject(own_folder, read_own_folder),
    "corrupt, npz": Subject(written("a.npz", bytes_of(np.savez, images=IMAGES)), corruptible),
    "corrupt, npy": Subject(written("a.npy", bytes_of(np.save, IMAGES)), corruptible),
    "corrupt, picture": Subject(picture("PNG"), corruptible),
    "frost": Subject(frost, read_frost),
    "saved outputs": Subject(outputs, read_saved_outputs, npz_inner, npz_wrap),
    "saved outputs, csv": Subject(table("csv"), read_saved_outputs),
    "saved outputs, npy": Subject(
        written("a.npy", bytes_of(np.save, np.array([[0.25, 0.75, 1], [0.5, 0.5, 0]]))), read_saved_outputs
    ),
    "labelled rows, csv": Subject(table("csv"), read_labelled_rows),
    "labelled rows, parquet": Subject(table("parquet"), read_labelled_rows),
    "model file": Subject(model_file, weights_of_model, sealed=True),
    "model file, description": Subject(model_file, used_model, *DESCRIPTION),
    "model file, tensors": Subject(model_file, used_model, *TENSORS),
    "model file, numbers": Subject(model_file, used_model, numbers, with_numbers),
    "model file, summary": Subject(model_file, summarised, *DESCRIPTION),
    "exported, onnx": Subject(onnx_file, opened_onnx),
    "rows, csv": Subject(beside_a_model("rows.csv", ROWS), predicted),
    "rows, npz": Subject(beside_a_model("rows.npz", ROWS_NPZ), predicted, npz_inner, npz_wrap),
    "rows, parquet": Subject(columns_of_rows("parquet"), predicted),
    "rows, arrow": Subject(columns_of_rows("arrow"), predicted),
    "rows, manifest": Subject(manifest, predicted_pictures),
    "rows, listed picture": Subject(listed_picture, predicted_pictures),
    "rows, raw columns": Subject(raw_rows, predicted_raw),
    "rows, raw arrow": Subject(raw_columns, predicted),
    "model file, steps": Subject(
        behind_steps, predicted_raw, member("steps.skops"), with_member("steps.skops")
    ),
    "rows, stopped table": Subject(stopped_prediction("part"), resumed, sealed=True),
    "rows, progress": Subject(stopped_prediction("progress"), resumed, sealed=True),
    "watched table": Subject(watched_table, watched),
    "watched arrow": Subject(watched_columns, watched),
    "service, json": Subject(
        written("a.json", '{"rows": [[1, 2, 3, 4.5], [5, -6e3, 7, 8]]}'), body("application/json")
    ),
    "service, csv": Subject(written("a.csv", ROWS), body("text/csv")),
    "service, picture": Subject(picture("PNG"), body("image/png")),
    "service, tensor": Subject(written("a.json", TENSOR), body("tensor")),
    "checkpoint": Subject(checkpoint, read_a_checkpoint, sealed=True),
    "run, records": Subject(run_folder("records.jsonl"), looked_at, sealed=True),
    "run, config": Subject(run_folder("config.json"), looked_at, sealed=True),
    "run, timing": Subject(run_folder("timing.jsonl"), looked_at, sealed=True),
    "run, done": Subject(run_folder("done"), looked_at, sealed=True),
}
