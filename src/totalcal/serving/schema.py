"""What the service says of itself in `/openapi.json`: the bodies it takes and the answers it gives.

Made for the model that is served: its shape, its columns and its name are in the schema, so that a client can
be written, and tested, from it alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from totalcal.files.reading import MOST_AXES
from totalcal.inputs import TensorForm
from totalcal.serving.guard import OPEN
from totalcal.uncertainties import P_VALUES

Schema = dict[str, Any]

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64",
)  # fmt: skip
PICTURES = ("image/bmp", "image/gif", "image/jpeg", "image/png", "image/tiff", "image/webp")
LARGEST = 1e18  # variances and distances are squares, which end at 3.4e38 in float32

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_ANSWER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ENTRY: Schema = {"type": ["number", "boolean"], "minimum": -LARGEST, "maximum": LARGEST}

REFUSALS: Mapping[int | str, str] = {
    400: "The request is broken", 401: "A token is needed", 403: "A page elsewhere may not ask",
    404: "No such path or model", 405: "No such method", 408: "The request came too slowly",
    413: "The request is too large",
    415: "An unknown kind of body", 421: "Only for this machine", 422: "These rows cannot be used",
    503: "Too busy, or stopping",
}  # fmt: skip


def datatype(form: TensorForm) -> str:
    """The protocol's name for the type of a tensor.

    >>> [datatype(TensorForm("x", dtype, 1)) for dtype in ("bool", "int64", "bfloat16")]
    ['BOOL', 'INT64', 'FP32']
    """
    name = form.dtype.upper().replace("BFLOAT16", "FP32").replace("FLOAT", "FP")
    return name if name in DATATYPES else "FP32"


def record(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """An object with these properties and no others.

    >>> record({"a": {}}, b={})["required"]
    ['a']
    """
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


def array_of(items: Schema, **limits: int) -> Schema:
    """The schema of an array of such items."""
    return {"type": "array", "items": items, **limits}


def answer(schema: Schema, kind: str = "application/json") -> dict[int | str, Schema]:
    """The `responses` of a route."""
    return {200: _content(kind, schema, "The answer")}


def _content(kind: str, schema: Schema, words: str) -> Schema:
    return {"description": words, "content": {kind: {"schema": schema}}}


def refusals() -> dict[int | str, Schema]:
    """All that a client may be told instead of an answer."""
    error = record({"error": _TEXT})
    return {status: _content("application/json", error, words) for status, words in REFUSALS.items()}


def body(kinds: Mapping[str, Schema]) -> Schema:
    """The `openapi_extra` of a route that reads its own body."""
    described = {kind: {"schema": schema} for kind, schema in kinds.items()}
    return {"requestBody": {"required": True, "content": described}}


def bodies_for_people(
    shape: Sequence[int] | None,
    columns: Sequence[str] | None,
    takes: Sequence[TensorForm] | None,
    most: int,
) -> dict[str, Schema]:
    """The kinds of body that `/predict` takes: a row or rows as JSON, a CSV, a picture."""
    row = _row(shape, columns) if takes is None else _taken(takes)
    rows = array_of(row, minItems=1, maxItems=most)
    kinds: dict[str, Schema] = {"application/json": {"oneOf": [record({"row": row}), record({"rows": rows})]}}
    kinds["text/csv"] = {"type": "string", "description": "A header, then a line per row"}
    if takes_pictures(shape):
        picture: Schema = {"type": "string", "format": "binary"}
        kinds |= dict.fromkeys(PICTURES, picture)
    return kinds


def takes_pictures(shape: Sequence[int] | None) -> bool:
    """Whether rows of this shape are pictures: one or three channels, height, width."""
    return shape is not None and len(shape) == 3 and shape[0] in (1, 3)


def _row(shape: Sequence[int] | None, columns: Sequence[str] | None) -> Schema:
    if shape is None:
        return {"type": "array"}
    forms = [_nested(shape)]
    if len(shape) > 1:  # a picture's pixels may come as one list
        forms.append(_nested([int(np.prod(shape))]))
    if columns is not None:
        named = dict.fromkeys(columns, _ENTRY)
        forms.append({"type": "object", "required": list(columns), "properties": named})
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _taken(takes: Sequence[TensorForm]) -> Schema:
    """A row of a net of one's own: what its one tensor has, or all by name."""
    parts = {form.name: {"type": "array"} if form.axes else _ENTRY for form in takes}
    return record(parts) if len(parts) > 1 else next(iter(parts.values()))


def _nested(shape: Sequence[int]) -> Schema:
    schema = _ENTRY
    for length in reversed(shape):
        schema = array_of(schema, minItems=length, maxItems=length)
    return schema


def infer_body(
    shape: Sequence[int] | None, takes: Sequence[TensorForm] | None, most: int, outputs: Sequence[str]
) -> dict[str, Schema]:
    """The tensors of a request of the Open Inference Protocol; `data` has as many numbers as `shape` says.

    A model whose preprocessing gives the shape of a row takes one, others those they were calibrated with.
    """
    rows: Schema = {"type": "integer", "minimum": 1, "maximum": most}
    lengths = array_of(_COUNT, minItems=1, maxItems=MOST_AXES)
    if shape is not None:
        axes = [rows, *({"const": length} for length in shape)]
        lengths = {"type": "array", "prefixItems": axes, "minItems": len(axes), "maxItems": len(axes)}
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "shape": lengths,
            "datatype": {"enum": list(DATATYPES)},
            "data": {"type": "array", "minItems": 1},
        },
    }
    most_tensors = 1 if takes is None else len(takes)
    is_known = shape is not None or takes is not None
    inputs = array_of(tensor, minItems=1, **{"maxItems": most_tensors} if is_known else {})
    wanted = array_of(
        {"type": "object", "required": ["name"], "properties": {"name": {"enum": list(outputs)}}}
    )
    properties = {"id": _TEXT, "inputs": inputs, "outputs": wanted}
    return {"application/json": {"type": "object", "required": ["inputs"], "properties": properties}}


def predictions(classes: Sequence[str]) -> Schema:
    """The answer of `/predict`."""
    terms = record(dict.fromkeys(("reducible", "irreducible", "data"), _ANSWER))
    said = record(
        {
            "class": _TEXT,
            "probabilities": record({name: {"type": "number", "minimum": 0} for name in classes}),
            "entropy": _ANSWER,
            "uncertainty": terms,
            **{name: {"type": ["number", "null"], "minimum": 0, "maximum": 1} for name in P_VALUES},
            "decision": {"type": ["string", "null"]},
            "reason": {"type": ["string", "null"]},
        },
        set=array_of({"enum": list(classes)}, minItems=1),
    )
    by = {"model": _TEXT, "digest": _TEXT, "made": _TEXT}
    return record(by | {"predictions": array_of(said, minItems=1)})


def tensors() -> Schema:
    """The answer of `infer`."""
    output = record({"name": _TEXT, "datatype": _TEXT, "shape": array_of(_COUNT), "data": {"type": "array"}})
    by = {"model_name": _TEXT, "model_version": _TEXT, "parameters": record({"made": _TEXT})}
    return record({**by, "outputs": array_of(output)}, id=_TEXT)


def metadata() -> Schema:
    """The answer of `/v2/models/{name}`."""
    lengths = array_of({"type": "integer", "minimum": -1})
    tensor = record({"name": _TEXT, "datatype": _TEXT, "shape": lengths})
    both = {"inputs": array_of(tensor), "outputs": array_of(tensor)}
    return record({"name": _TEXT, "versions": array_of(_TEXT), "platform": _TEXT, **both})


SERVER = record({"name": _TEXT, "version": _TEXT, "extensions": array_of(_TEXT)})
LIVE = record({"live": _FLAG})
READY = record({"ready": _FLAG})
MODEL_READY = record({"name": _TEXT, "ready": _FLAG})
ABOUT: Schema = {
    "type": "object",
    "required": [
        "name",
        "version",
        "digest",
        "classes",
        "shape",
        "columns",
        "takes_pictures",
        "gate",
        "monitor",
    ],
}


def completed(openapi: Schema, name: str, needs_token: bool) -> Schema:
    """FastAPI's own description, with the name of the one model, and the token where one is needed."""
    operations = [(path, each) for path, methods in openapi["paths"].items() for each in methods.values()]
    for _, each in operations:
        for parameter in each.get("parameters", ()):
            parameter["schema"] = {"const": name}
    if needs_token:
        openapi["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        for path, each in operations:
            each["security"] = [] if path in OPEN else [{"token": []}]
    return openapi
