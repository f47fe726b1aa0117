"""From the body of a request to rows, as `totalcal predict` would read them from a file."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from totalcal.data.preprocessing import Preprocessing
from totalcal.errors import InputError, TotalcalError
from totalcal.files.predicting.inputs import rows_of, structured
from totalcal.files.reading import MOST_AXES, parse_json
from totalcal.inputs import TensorForm
from totalcal.serving.guard import RefusalError
from totalcal.serving.schema import DATATYPES, LARGEST, PICTURES, datatype

Row = npt.NDArray[Any]
Forms = Sequence[TensorForm] | None

_KINDS = ("application/json", "text/csv", *PICTURES)


def rows_for_people(
    content: bytes, kind: str, preprocessing: Preprocessing | None, takes: Forms, most: int
) -> list[Row]:
    """The rows of a picture, a CSV with a header, or JSON: {"row": …} or {"rows": [ … ]}.

    Raises:
        RefusalError: If the kind is unknown (415), there are too many rows (413), or one is bad (422).
    """
    kind = kind.partition(";")[0].strip().lower()
    if kind == "application/json":
        return _from_json(_parsed(content, preprocessing, most), preprocessing, takes, most)
    if kind == "text/csv":
        return _from_file(content, "rows.csv", preprocessing, most)
    if kind in PICTURES:
        return _from_file(content, f"picture.{kind.partition('/')[2]}", preprocessing, most)
    raise RefusalError(415, f"Content-Type is one of {', '.join(_KINDS)}, not {kind[:80]!r}.")


class Inference(NamedTuple):
    """A request of the Open Inference Protocol: its rows, its id, and the outputs that it asks for."""

    rows: list[Row]
    identity: str | None
    outputs: list[str] | None


def inference(content: bytes, preprocessing: Preprocessing | None, takes: Forms, most: int) -> Inference:
    """A request of the Open Inference Protocol, as it came.

    Raises:
        RefusalError: If there are too many rows (413), or the request is not one of the protocol (422).
    """
    request = _parsed(content, preprocessing, most)
    tensors = request.get("inputs") if isinstance(request, dict) else None
    if not isinstance(tensors, list) or not all(isinstance(each, dict) for each in tensors):
        raise RefusalError(422, "a request is an object with a list `inputs` of tensors.")
    if not tensors or (preprocessing is not None and len(tensors) > 1):
        raise RefusalError(422, f"the model takes one input tensor, but got {len(tensors)}.")
    name = request.get("id")
    if name is not None and not isinstance(name, str):
        raise RefusalError(422, "`id` is a string, if it is given.")
    rows = _from_tensors(tensors, preprocessing, takes, most)
    return Inference(rows, name, _asked_for(request.get("outputs")))


def _from_tensors(
    tensors: Sequence[Mapping[str, Any]], preprocessing: Preprocessing | None, takes: Forms, most: int
) -> list[Row]:
    """The rows of one tensor; of several, a row has them as fields, by the names of the net's arguments."""
    known = {} if takes is None else {each.name: each for each in takes}
    values = [_from_tensor(each, preprocessing, known.get(str(each.get("name"))), most) for each in tensors]
    if len(values) == 1:
        return list(values[0])
    names = [each["name"] for each in tensors]
    if len(set(names)) < len(names) or len({len(each) for each in values}) > 1:
        raise RefusalError(422, "several tensors have different names, and as many rows each.")
    return list(structured(dict(zip(names, values, strict=True))))


def _asked_for(outputs: Any) -> list[str] | None:
    if outputs is None:
        return None
    try:
        names = [each["name"] for each in outputs]
    except (TypeError, KeyError):
        names = [None]
    if not isinstance(outputs, list) or not all(isinstance(name, str) for name in names):
        raise RefusalError(422, '`outputs` is a list of objects with a name, such as {"name": "class"}.')
    return names


def _from_tensor(
    tensor: Mapping[str, Any], preprocessing: Preprocessing | None, form: TensorForm | None, most: int
) -> Row:
    shape, kind = tensor.get("shape"), tensor.get("datatype")
    if not isinstance(tensor.get("name"), str) or not tensor["name"]:
        raise RefusalError(422, 'a tensor has a `name`, such as "inputs".')
    if not isinstance(kind, str) or kind not in DATATYPES:
        raise RefusalError(422, f"`datatype` is one of {', '.join(DATATYPES)}, not {str(kind)[:40]!r}.")
    if not isinstance(shape, list) or not shape or not all(_is_length(axis) for axis in shape):
        raise RefusalError(422, "`shape` is a list of lengths, the first of them the number of rows.")
    if len(shape) > MOST_AXES:
        raise RefusalError(422, f"`shape` has at most {MOST_AXES} axes, not {len(shape)}.")
    _check_count(shape[0], most)
    values = _numbers(tensor.get("data"))
    if values.size != int(np.prod([float(axis) for axis in shape])):
        raise RefusalError(422, f"`data` has {values.size} numbers, but `shape` promises {shape}.")
    if preprocessing is not None:
        _of_type(values, kind, "`data`")
        return _checked(values.reshape(shape), preprocessing)
    values = _of_type(values, kind, "`data`")
    if form is not None:
        values = _of_type(values, datatype(form), f"`data` of {form.name}")
    elif values.dtype == np.float64:  # what JSON's numbers are called, whatever a net computes in
        values = values.astype(np.float32)
    return _checked(values.reshape(shape), None)


def _of_type(values: Row, kind: str, what: str) -> Row:
    """The numbers in the type of the protocol that they are said to be, if they are."""
    if kind.startswith("FP"):
        fits = not (np.abs(values) > float(np.finfo(f"float{kind[2:]}").max)).any()
    else:
        known = None if kind == "BOOL" else np.iinfo(kind.lower())
        least, most = (0, 1) if known is None else (known.min, known.max)
        fits = bool(((values >= least) & (values <= most) & (values == np.floor(values))).all())
    if not fits:
        raise RefusalError(422, f"{what} holds numbers that are no {kind}.")
    types = {"BOOL": np.bool_, "FP64": np.float64, "FP32": np.float32, "FP16": np.float32}
    return values.astype(types.get(kind, np.int64))


def _from_json(content: Any, preprocessing: Preprocessing | None, takes: Forms, most: int) -> list[Row]:
    if isinstance(content, dict) and content.keys() == {"row"}:
        given = [content["row"]]
    elif isinstance(content, dict) and content.keys() == {"rows"} and isinstance(content["rows"], list):
        given = content["rows"]
    else:
        raise RefusalError(422, 'JSON is {"row": [1.5, …]}, {"row": {"column": 1.5, …}} or {"rows": [ … ]}.')
    _check_count(len(given), most)
    if takes is not None:
        return _as_taken(given, takes)
    columns = None if preprocessing is None else preprocessing.columns
    rows = [_by_name(row, columns) if isinstance(row, dict) else row for row in given]
    values = _numbers(rows)
    if preprocessing is None:
        values = values.astype(np.float32)
    elif values.size == len(rows) * int(np.prod(preprocessing.shape)):
        values = values.reshape(len(rows), *preprocessing.shape)  # a picture's pixels may come as one list
    return list(_checked(values, preprocessing))


def _as_taken(given: list[Any], takes: Sequence[TensorForm]) -> list[Row]:
    """Rows of a net of one's own: numbers, or an object with those of each tensor, in the types it takes."""
    names = [form.name for form in takes]
    if len(takes) > 1 and not all(isinstance(row, dict) for row in given):
        raise RefusalError(
            422, f"a row is an object with {', '.join(names)}: the model takes several tensors."
        )
    parts: dict[str, Row] = {}
    for form in takes:
        if any(isinstance(row, dict) and form.name not in row for row in given):
            raise RefusalError(422, f"a row lacks {form.name!r}: the model takes {', '.join(names)}.")
        values = _numbers([row[form.name] if isinstance(row, dict) else row for row in given])
        if values.ndim - 1 != form.axes:
            raise RefusalError(
                422,
                f"{form.name} of a row has {form.axes} axes (nested lists), but {values.ndim - 1} came.",
            )
        parts[form.name] = _checked(_of_type(values, datatype(form), form.name), None)
    return list(structured(parts) if len(takes) > 1 else parts[names[0]])


def _by_name(row: Mapping[str, Any], columns: Sequence[str] | None) -> list[Any]:
    if columns is None:
        raise RefusalError(
            422, "this model knows no names of columns: send a row as a list, or tensors to its path …/infer."
        )
    missing = [name for name in columns if name not in row]
    if missing:
        raise RefusalError(422, f"the row lacks the column {missing[0]!r} ({len(missing)} are missing).")
    return [row[name] for name in columns]


def _from_file(content: bytes, name: str, preprocessing: Preprocessing | None, most: int) -> list[Row]:
    """By the readers of `totalcal predict`, so that both see the same."""
    with tempfile.TemporaryDirectory(prefix="totalcal-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            reader = rows_of(path if path.suffix == ".csv" else path.parent, preprocessing)
            chunk = next(reader.chunks(most + 1), None)
        except (TotalcalError, UnicodeDecodeError, ValueError) as error:
            raise RefusalError(422, str(error).replace(str(path), "the body")) from error
        except Exception as error:  # csv.Error, and what else a reader of other people's bytes may raise
            raise RefusalError(422, f"the body cannot be read as {name.rpartition('.')[2]}.") from error
    if chunk is None:
        raise RefusalError(422, "there are no rows in the body.")
    _check_count(chunk.rows, most)
    if chunk.complaints:
        row, reason = chunk.complaints[0]
        row = row if path.suffix == ".csv" else "the body"
        raise RefusalError(422, f"{row} {reason.replace(str(path), 'the body')}.")
    return list(chunk.values)


def _checked(values: Row, preprocessing: Preprocessing | None) -> Row:
    if preprocessing is not None and values.shape[1:] != preprocessing.shape:
        raise RefusalError(
            422, f"the model takes rows of shape {list(preprocessing.shape)}, not {list(values.shape[1:])}."
        )
    if np.issubdtype(values.dtype, np.floating) and not (np.abs(values) <= LARGEST).all():
        raise RefusalError(422, f"the rows hold NaN, infinity, or numbers beyond ±{LARGEST:g}.")
    return values


def _numbers(given: Any) -> npt.NDArray[np.float64]:
    try:
        values = np.array(given, dtype=object)  # a long word would become as many characters in every place
        if not set(map(type, values.flat)) <= {bool, int, float}:
            raise ValueError
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise RefusalError(422, "rows are numbers, as many in each of them.") from error


def _check_count(rows: int, most: int) -> None:
    if rows == 0:
        raise RefusalError(422, "there are no rows in the body.")
    if rows > most:
        raise RefusalError(413, f"a request has at most {most} rows: send several.")


def _is_length(axis: Any) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < 2**31


def _parsed(content: bytes, preprocessing: Preprocessing | None, most: int) -> Any:
    """The JSON of a body, of no more values than the most rows have, each with lists around its axes."""
    width = None if preprocessing is None else int(np.prod(preprocessing.shape))
    try:
        return parse_json(
            content.decode(), "the body", None if width is None else most * (2 * width + 2) + 100
        )
    except InputError as error:
        raise RefusalError(422, str(error)[:200]) from error
    except UnicodeDecodeError as error:
        raise RefusalError(422, "the body is not JSON in UTF-8.") from error
