import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from PIL import Image

from totalcal import softmax
from totalcal.data import from_image_folder
from totalcal.data.preprocessing import PictureSteps, Preprocessing
from totalcal.errors import InputError, ShapeError, UnreadableFileError
from totalcal.files import budget
from totalcal.files.predicting.inputs import ArrayFile, rows_of
from totalcal.files.predicting.stream import predict_file
from totalcal.files.saved import save
from totalcal.nets import small_convnet

AS_THEY_ARE = Preprocessing((3, 8, 8), torch.tensor(0.0), torch.tensor(1.0))
RESIZED = Preprocessing((3, 8, 8), torch.tensor(0.0), torch.tensor(1.0), pictures=PictureSteps((8, 8)))


@pytest.fixture
def folder(tmp_path):
    """Pictures as people have them, in two folders: of any size and mode, turned, and no pictures at all."""
    root, draw = tmp_path / "pictures", np.random.default_rng(0)
    for name in ("cat", "dog", ".ipynb_checkpoints"):
        (root / name).mkdir(parents=True)
    pixels = draw.integers(0, 256, (12, 10, 4), dtype=np.uint8)
    Image.fromarray(pixels[..., :3]).save(root / "cat" / "colour.png")
    Image.fromarray(pixels).save(root / "cat" / "transparent.png")
    Image.fromarray(pixels[..., 0]).save(root / "cat" / "grey.jpg")
    Image.fromarray(draw.integers(0, 1 << 16, (9, 30), dtype=np.uint16)).save(root / "dog" / "deep.png")
    Image.fromarray(pixels[..., :3]).quantize(8).save(root / "dog" / "palette.gif")
    turned = Image.Exif()
    turned[0x0112] = 6  # lies on its side
    Image.fromarray(pixels[:, :6, :3]).save(root / "dog" / "turned.jpg", exif=turned)
    Image.fromarray(pixels).save(root / ".ipynb_checkpoints" / "hidden.png")
    return root


NAMES = [
    "cat/colour.png",
    "cat/grey.jpg",
    "cat/transparent.png",
    "dog/deep.png",
    "dog/palette.gif",
    "dog/turned.jpg",
]


def test_pictures_of_sub_folders_are_read_as_those_of_training(folder):
    (chunk,) = rows_of(folder, RESIZED).chunks(10)
    assert (chunk.names, chunk.complaints) == (NAMES, [])
    trained_on = from_image_folder(folder, size=(8, 8))
    assert np.array_equal(np.rint(chunk.values * 255), trained_on.images.permute(0, 3, 1, 2).numpy())


def test_answers_are_the_same_with_any_number_of_workers_and_as_in_training(folder, tmp_path, lines):
    (folder / "dog" / "broken.png").write_bytes(b"no picture")
    train = from_image_folder(folder, size=(8, 8), strict=False)
    torch.manual_seed(0)
    model = softmax(small_convnet(2, (3, 8, 8)), 2).eval()
    save(model, tmp_path / "it.totalcal", classes=train.classes, preprocessing=train.preprocessing)
    for workers in (0, 2):
        path = tmp_path / f"{workers}.csv"
        done = predict_file(tmp_path / "it.totalcal", folder, path, chunk_size=2, workers=workers)
        assert (done.rows, done.bad_rows) == (7, 1)
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    assert (tmp_path / "0.csv.bad").read_bytes() == (tmp_path / "2.csv.bad").read_bytes()
    expected = model.predict(train.whole().inputs).probabilities
    found = [[float(line["p(cat)"]), float(line["p(dog)"])] for line in lines(tmp_path / "2.csv")]
    assert_allclose(found, expected, atol=1e-5)


def test_workers_go_on_where_they_are_told_to(folder):
    whole = list(rows_of(folder, RESIZED).chunks(2))
    rest = list(rows_of(folder, RESIZED, workers=2).chunks(2, skip=2))
    assert [chunk.names for chunk in rest] == [NAMES[2:4], NAMES[4:]]
    for ours, theirs in zip(rest, whole[1:], strict=True):
        assert np.array_equal(ours.values, theirs.values)


def test_a_picture_that_does_not_fit_into_the_share_of_a_process_is_one_line(tmp_path, monkeypatch):
    """Two processes and this one share the budget: in a third of 120 MB there is no room for 60 MB."""
    for name in "ab":
        Image.new("RGB", (2240, 2240)).save(tmp_path / f"{name}.png")
    monkeypatch.setattr(budget, "limit", budget.held() + 120 * 2**20)
    assert len(list(rows_of(tmp_path, RESIZED, workers=0).chunks(1))) == 2
    monkeypatch.setattr(budget, "limit", budget.held() + 120 * 2**20)
    with pytest.raises(InputError, match="--workers 0") as refused:
        list(rows_of(tmp_path, RESIZED, workers=2).chunks(1))
    assert "\n" not in str(refused.value)


def test_workers_leave_the_random_numbers_of_the_user_alone(folder):
    before = torch.get_rng_state()
    list(rows_of(folder, RESIZED, workers=1).chunks(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_manifest_names_the_pictures_in_its_order(folder):
    manifest = folder / "list.csv"
    manifest.write_text(f"label,path\n1,dog/deep.png\n0,cat/none.png\n0,{folder / 'cat' / 'grey.jpg'}\n")
    (chunk,) = rows_of(manifest, RESIZED, manifests=True).chunks(10)
    assert chunk.names == ["dog/deep.png", str(folder / "cat" / "grey.jpg")]
    assert [complaint.name for complaint in chunk.complaints] == ["cat/none.png"]
    by_folder = {
        name: value
        for each in rows_of(folder, RESIZED).chunks(10)
        for name, value in zip(each.names, each.values, strict=True)
    }
    assert np.array_equal(chunk.values, [by_folder["dog/deep.png"], by_folder["cat/grey.jpg"]])
    manifest.write_text('any name\n"dog/deep.png"\n')
    assert [chunk.names for chunk in rows_of(manifest, RESIZED, manifests=True).chunks(10)] == [
        ["dog/deep.png"]
    ]


def test_a_manifest_that_was_not_asked_for_reads_no_files(folder):
    (folder / "list.csv").write_text("path\ncat/grey.jpg\n")
    with pytest.raises(InputError, match="cannot hold"):
        rows_of(folder / "list.csv", RESIZED)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "in a column 'path'; it has a, b"),
        ("path\n", "names no pictures"),
        ("", "no header"),
        ('path\na.png\n"b.png\nc.png\n', r"list\.csv has a quote that is never closed"),
    ],
)
def test_what_is_no_manifest_is_refused(tmp_path, content, message):
    (tmp_path / "list.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / "list.csv", RESIZED, manifests=True)


def test_a_listed_name_that_no_file_can_have_is_a_bad_row(folder):
    (folder / "list.csv").write_text("path\ncat/\0.jpg\ncat/grey.jpg\n")
    (chunk,) = rows_of(folder / "list.csv", RESIZED, manifests=True).chunks(5)
    assert chunk.names == ["cat/grey.jpg"]
    assert [name for name, _ in chunk.complaints] == ["cat/\0.jpg"]


def test_changes_of_a_listed_picture_are_noticed(folder):
    (folder / "list.csv").write_text("path\ncat/grey.jpg\n")
    before = rows_of(folder / "list.csv", RESIZED, manifests=True).state()
    (folder / "cat" / "grey.jpg").write_bytes(b"another")
    assert rows_of(folder / "list.csv", RESIZED, manifests=True).state() != before


def test_pictures_of_another_size_are_refused_where_the_file_does_not_say_what_to_do(folder):
    (chunk,) = rows_of(folder, AS_THEY_ARE).chunks(10)
    assert chunk.names == []
    assert chunk.complaints[0] == ("cat/colour.png", "has 12×10 pixels, the model takes 8×8")


def test_an_array_is_read_in_chunks_from_anywhere(tmp_path):
    rows = np.arange(20, dtype=np.int16).reshape(10, 2)
    np.savez_compressed(tmp_path / "rows.npz", inputs=rows, labels=np.zeros(10))
    reader = ArrayFile(tmp_path / "rows.npz")
    assert reader.width == 2
    chunks = list(reader.chunks(4, skip=4))
    assert [chunk.names[0] for chunk in chunks] == ["row 4", "row 8"]
    assert np.array_equal(np.concatenate([chunk.values for chunk in chunks]), rows[4:])


def test_rows_of_an_array_that_are_not_finite_are_named(tmp_path):
    np.savez(tmp_path / "rows.npz", np.array([[1.0, 2.0], [np.nan, 1.0], [np.inf, 2.0]], np.float32))
    (chunk,) = ArrayFile(tmp_path / "rows.npz").chunks(4)
    assert chunk.names == ["row 0"]
    assert [complaint.name for complaint in chunk.complaints] == ["row 1", "row 2"]


def test_several_arrays_are_the_fields_of_a_row(tmp_path):
    ids, weights = np.arange(30).reshape(10, 3), np.linspace(0, 1, 10, dtype=np.float32)
    weights[5] = np.nan
    np.savez(tmp_path / "rows.npz", ids=ids, weights=weights, labels=np.zeros(10))
    reader = ArrayFile(tmp_path / "rows.npz")
    assert reader.width == 4
    first, second = reader.chunks(4, skip=2)
    assert np.array_equal(first.values["ids"], ids[[2, 3, 4]])
    assert np.array_equal(second.values["weights"], weights[6:])
    assert first.complaints == [("row 5", "holds NaN or infinity")]
    assert first.values.dtype.names == ("ids", "weights")


def test_arrays_that_were_saved_without_names_are_fields_by_position(tmp_path):
    np.savez(tmp_path / "rows.npz", np.zeros((2, 3)), np.ones((2, 4)))
    (chunk,) = ArrayFile(tmp_path / "rows.npz").chunks(5)
    assert chunk.values.dtype.names == ("0", "1")
    assert chunk.values["1"].shape == (2, 4)


def test_labels_beside_an_array_of_another_name_are_left_alone(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.zeros((2, 3)), labels=np.ones(2))
    (chunk,) = ArrayFile(tmp_path / "rows.npz", (3,)).chunks(5)
    assert chunk.values.shape == (2, 3)


def test_arrays_that_no_row_can_have_are_refused(tmp_path):
    np.savez(tmp_path / "rows.npz", a=np.zeros((2, 3)), b=np.ones((3, 4)))
    with pytest.raises(InputError, match="as many rows"):
        ArrayFile(tmp_path / "rows.npz")
    with pytest.raises(InputError, match="named inputs"):
        ArrayFile(tmp_path / "rows.npz", (3,))


@pytest.mark.parametrize(
    "rows", [np.array(1.0), np.zeros((3, 0)), np.asfortranarray(np.ones((3, 2))), np.array(["a"])]
)
def test_an_array_that_holds_no_rows_of_numbers_is_refused(tmp_path, rows):
    np.savez(tmp_path / "rows.npz", rows)
    with pytest.raises(InputError, match="C order"):
        ArrayFile(tmp_path / "rows.npz")


@pytest.mark.parametrize("rows", [np.zeros((1, 10**8)), np.zeros(4), np.zeros((2, 3, 4))])
def test_rows_of_another_shape_are_refused_before_one_is_read(tmp_path, rows):
    np.savez_compressed(tmp_path / "rows.npz", rows)
    before = budget.held()
    with pytest.raises(ShapeError, match="shape"):
        rows_of(tmp_path / "rows.npz", Preprocessing((4,), torch.zeros(4), torch.ones(4)))
    assert budget.held() - before < 50e6


def test_rows_that_do_not_fit_into_the_budget_are_refused_before_one_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "rows.npz", np.zeros((1, 10**8)))
    monkeypatch.setattr(budget, "limit", budget.held() + 10**9)
    with pytest.raises(InputError, match=r"takes 3051 MB, and .* of the budget are left"):
        next(ArrayFile(tmp_path / "rows.npz").chunks(1))


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_a_file_whose_name_is_no_text_is_answered_like_any_other(folder, tmp_path, lines):
    (folder / "cat" / "colour.png").rename(folder / "cat" / os.fsdecode(b"\xff.png"))
    (folder / "cat" / "grey.jpg").unlink()
    (folder / "cat" / os.fsdecode(b"\xfe.jpg")).write_bytes(b"")
    save(softmax(small_convnet(2, (3, 8, 8)), 2), tmp_path / "m.totalcal", preprocessing=RESIZED)
    done = predict_file(tmp_path / "m.totalcal", folder, tmp_path / "out.csv")
    assert (done.rows, done.bad_rows) == (6, 1)
    assert "cat/\\xff.png" in [line["row"] for line in lines(tmp_path / "out.csv")]


def test_a_torn_array_is_named(tmp_path):
    np.savez(tmp_path / "rows.npz", np.random.default_rng(0).random((100, 10)))
    path = tmp_path / "rows.npz"
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(UnreadableFileError, match=r"rows\.npz"):
        list(ArrayFile(path).chunks(10))


def test_rows_are_read_and_answers_written_without_torch(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    program = (
        "import sys\nfrom pathlib import Path\nfrom types import SimpleNamespace\n"
        "from totalcal.files.predicting import answers, outputs, stream\n"
        "from totalcal.files.predicting.inputs import rows_of\n"
        "shape = SimpleNamespace(shape=(2,), columns=None, pictures=None)\n"
        f"(chunk,) = rows_of(Path({str(tmp_path / 'rows.csv')!r}), shape).chunks(10)\n"
        "assert chunk.values.tolist() == [[1, 2]]\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
