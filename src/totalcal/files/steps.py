"""What scikit-learn does to a table before a model sees it: fitted steps, in a file without pickle.

The steps are in the format of skops, which holds names and arrays, and makes nothing but what it knows to be
harmless: scikit-learn's own transformers. Steps with code of the user's own are refused when they are saved.
"""

import copy
import io
import math
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from totalcal.data.preprocessing import by_name, numbers
from totalcal.errors import InputError, MissingExtraError, ModelFileError, TotalcalError
from totalcal.files.budget import check_room

ColumnKind = Literal["number", "word", "boolean"]

_TRUSTED = ["numpy.dtype"]  # an imputer's; skops trusts scikit-learn's classes by itself
_MOST_MEMBERS = 10_000
_MOST_COLUMNS = 1 << 20
_MOST_GRAMS = 32  # of all lengths, a long word has as many n-grams as the square of its characters
_MOST_ROUNDS = 10_000  # of a step that looks for each row's numbers, such as NMF
_COPIES = 2  # of the numbers that steps make
_TOKENS = r"(?u)\b\w\w+\b"  # scikit-learn's own


class InputColumn(NamedTuple):
    """A column of the user's table by name, and what stands in it."""

    name: str
    kind: ColumnKind


@dataclass(frozen=True)
class Steps:
    """Fitted transformers of scikit-learn, and the columns that they take, where these have names.

    Attributes:
        transformer: A pipeline of transformers.
        columns: Of the table that it was fitted on; None for a plain array, or if it is not known.
        content: What the transformer was read from: skops would write other names of the same parts.
    """

    transformer: Any
    columns: tuple[InputColumn, ...] | None = None
    content: bytes | None = field(default=None, repr=False)

    def __call__(self, rows: Any) -> npt.NDArray[np.float64]:
        """The numbers that the model takes, of rows as the user has them.

        Args:
            rows: A data frame, whose columns are found by name, or an array in the order of `columns`.

        Raises:
            InputError: If a column is not there, a number is none, or a step refuses the rows.
        """
        table = self._table(rows)
        try:
            values = self.transformer.transform(table)
        except (MemoryError, OSError, TotalcalError):
            raise
        except Exception as error:  # of whatever kind a step's own error, or a forged step, happens to be
            reason = str(error).partition("\n")[0]
            raise InputError(f"a step of the pipeline refuses the rows ({reason}).") from error
        check_room(
            _COPIES * 8 * values.shape[0] * values.shape[1], f"what the steps make of {values.shape[0]} rows"
        )
        return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)

    def packed(self) -> bytes:
        """For a file.

        Raises:
            InputError: If a step is not scikit-learn's own.
        """
        if self.content is not None:
            return self.content
        _check_limits(self.transformer, InputError)
        skops = _skops()
        content: bytes = skops.dumps(self.transformer)
        unknown = _untrusted(content)
        if unknown:
            raise InputError(
                f"the steps hold {unknown[0]}, and a file holds no code but the names of scikit-learn's own. "
                "Use one of its transformers; or save the classifier alone, pipeline[-1].save(path), and "
                "apply the steps in your program, pipeline[:-1].transform(rows)."
            )
        return content

    @classmethod
    def unpacked(cls, content: bytes, columns: Any) -> Self:
        """What `packed` gave, and `columns` as plain values.

        Raises:
            ModelFileError: If the content is damaged, or asks for anything that is not scikit-learn's own.
        """
        _check_size(content)
        unknown = _untrusted(content)
        if unknown:
            raise ModelFileError(
                f"its steps ask for {unknown[0]}, which is not one of scikit-learn's transformers. "
                "totalcal did not write this file: do not use it."
            )
        try:
            transformer = _skops().loads(content, trusted=_TRUSTED)
        except Exception as error:  # of whatever kind the damage happens to cause
            raise ModelFileError(f"its steps cannot be read ({error}). Save it again.") from error
        _check_limits(transformer, ModelFileError)
        _check_places(transformer)
        _alone(transformer)
        if not hasattr(transformer, "transform"):
            raise ModelFileError(f"its steps are a {type(transformer).__name__}, which transforms nothing.")
        known = None if columns is None else tuple(InputColumn(str(name), kind) for name, kind in columns)
        return cls(transformer, known, content)

    def as_json(self) -> dict[str, Any]:
        """What a reader may want to know without loading the steps."""
        names = [name for name, _ in getattr(self.transformer, "steps", [])]
        return {"names": names, "columns": None if self.columns is None else [*map(list, self.columns)]}

    def _table(self, rows: Any) -> Any:
        if self.columns is None:
            return rows
        if hasattr(rows, "iloc"):
            table = by_name(rows, [column.name for column in self.columns])
            for place, column in enumerate(self.columns):
                if column.kind == "number":
                    numbers(table.iloc[:, [place]], [column.name], missing=True)
            return table
        return frame(np.asarray(rows, dtype=object), self.columns)


def columns_of(table: Any) -> tuple[InputColumn, ...] | None:
    """The columns of a data frame; None for anything else.

    Raises:
        InputError: If a column holds neither numbers nor words.
    """
    if not hasattr(table, "iloc"):
        return None
    return tuple(InputColumn(str(name), _kind(name, table[name].dtype)) for name in table.columns)


def frame(table: npt.NDArray[np.object_], columns: tuple[InputColumn, ...]) -> Any:
    """A data frame, each column in its type: what is missing in it is NaN."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "tables", "a table with words in it") from error
    if table.ndim != 2 or table.shape[1] != len(columns):
        raise InputError(
            f"the model takes rows of {len(columns)} columns, but these have {table.shape[1:]}: "
            f"{', '.join(column.name for column in columns[:5])}{', …' if len(columns) > 5 else ''}."
        )
    types = {"number": np.float64, "word": object, "boolean": object}
    return pd.DataFrame(
        {name: pd.Series(table[:, i], dtype=types[kind]) for i, (name, kind) in enumerate(columns)}
    )


def _kind(name: Any, dtype: Any) -> ColumnKind:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

    if is_bool_dtype(dtype):
        return "boolean"
    if is_numeric_dtype(dtype):
        return "number"
    if is_object_dtype(dtype) or is_string_dtype(dtype) or dtype.name == "category":
        return "word"
    raise InputError(
        f"the column {name!r} holds {dtype}; a file can hold numbers, words and booleans. "
        "Convert it to numbers before the pipeline."
    )


def _check_limits(steps: Any, error: type[TotalcalError]) -> None:
    """Steps of scikit-learn are trusted, but not with every argument: some take gigabytes or hours for a row.

    A vectoriser's own regular expression may never end on a word, and `input="filename"` would read files.
    """
    for part in _parts(steps):
        name, settings = type(part).__name__, vars(part)
        if settings.get("token_pattern") not in (None, _TOKENS) or settings.get("input") not in (
            None,
            "content",
        ):
            raise error(
                f"the step {name} has a token_pattern or an input of its own, which no file may have."
            )
        sizes = {
            key: int(value)
            for key, value in settings.items()
            if isinstance(value, Integral) and _is_size(key)
        }
        if name == "PolynomialFeatures":
            degree = min(int(part.degree) if isinstance(part.degree, Integral) else max(part.degree), 64)
            made = math.comb(settings.get("n_features_in_", 0) + degree, degree)
            sizes["degree"] = max(made, settings.get("_n_out_full", 0))  # what it allocates
        rounds = {key: sizes.pop(key) for key in list(sizes) if "max" in key and "iter" in key}
        key = next((key for key, value in rounds.items() if value > _MOST_ROUNDS), None)
        if key is not None and hasattr(part, "transform"):
            raise error(f"the step {name} ({key}) goes on for more than {_MOST_ROUNDS} rounds.")
        if "ngram_range" in settings and max(settings["ngram_range"]) > _MOST_GRAMS:
            raise error(f"the step {name} has an ngram_range beyond {_MOST_GRAMS}, which no file may have.")
        key = next((key for key, value in sizes.items() if value > _MOST_COLUMNS), None)
        if key is not None:
            raise error(
                f"the step {name} ({key}) makes {sizes[key]} columns, where {_MOST_COLUMNS} are allowed."
            )


def _check_places(steps: Any) -> None:
    """In a sparse table a number is written where its step says, in bounds or not: no library looks."""
    for part in _parts(steps):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_sound = all(_in_bounds(part))
        except Exception:  # of whatever kind the damage happens to cause
            is_sound = False
        if not is_sound:
            raise ModelFileError(
                f"the step {type(part).__name__} names columns that are not there. "
                "totalcal did not write this file: do not use it."
            )


def _in_bounds(part: Any) -> Iterator[bool]:
    words = getattr(part, "vocabulary_", {})
    yield sorted(words.values()) == list(range(len(words)))
    if hasattr(part, "n_samples_fit_"):
        yield part.n_samples_fit_ == len(part._fit_X)
    if type(part).__name__ == "OneHotEncoder" and hasattr(part, "categories_"):
        known = part.categories_
        renamed = getattr(part, "_default_to_infrequent_mappings", None) or [None] * len(known)
        yield all(new is None or len(new) == len(old) for new, old in zip(renamed, known, strict=True))
        encoder = copy.copy(part)
        vars(encoder).update(sparse_output=True, _sklearn_output_config={"transform": "default"})
        rows = np.stack([np.resize(each, max(map(len, known))) for each in known], 1)
        encoder.transform(rows).check_format(full_check=True)  # each category once


def _parts(part: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Every object of scikit-learn within steps, once."""
    seen = set() if seen is None else seen
    is_step = type(part).__module__.startswith("sklearn.") and hasattr(part, "__dict__")
    if id(part) in seen or not (is_step or isinstance(part, list | tuple | dict)):
        return
    seen.add(id(part))
    if is_step:
        yield part
    within = vars(part) if is_step else part
    for each in list(within.values()) if isinstance(within, dict) else within:
        yield from _parts(each, seen)


def _alone(part: Any) -> None:
    """In this process only: how many may work on rows is not for a file to say."""
    for each in _parts(part):
        if "n_jobs" in vars(each):
            each.n_jobs = None


def _is_size(name: str) -> bool:
    return not name.startswith(("_", "n_samples", "random_state", "n_jobs", "verbose"))


def _untrusted(content: bytes) -> list[str]:
    try:
        return [name for name in _skops().get_untrusted_types(data=content) if name not in _TRUSTED]
    except Exception as error:  # of whatever kind the damage happens to cause
        raise ModelFileError(f"its steps cannot be read ({error}). Save it again.") from error


def _check_size(content: bytes) -> None:
    """Nothing is compressed, so that no small file becomes a large one in memory."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"its steps are damaged ({error}). Copy or save it again.") from error
    if len(members) > _MOST_MEMBERS or any(
        member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content) for member in members
    ):
        raise ModelFileError("its steps are compressed. totalcal did not write this file: do not use it.")


def _skops() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import skops.io
    except ImportError as error:
        raise MissingExtraError("skops", "tables", "a pipeline in a file") from error
    return skops.io
