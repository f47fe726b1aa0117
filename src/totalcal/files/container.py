"""The outer shape of a model file: a zip of two members that are stored as they are. Knows no torch.

Nothing is unpacked to disk, nothing is run, nothing is compressed, so that no small file becomes a large one
in memory. The zip's own checksums find damage.
"""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from totalcal.errors import ModelFileError
from totalcal.whole_files import whole_file

FORMAT = 1
LARGEST = 4 * 2**30
_LARGEST_DESCRIPTION = 4 * 2**20
_DESCRIPTION, _TENSORS = "description.json", "tensors.safetensors"
_EARLIEST_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


class Container(NamedTuple):
    """What a file holds: a description of plain values, and tensors in the format of safetensors."""

    description: dict[str, Any]
    tensors: bytes


def write_container(path: Path, content: Container) -> None:
    """Write a file, or leave the old one as it was."""
    text = json.dumps({"format": FORMAT, **content.description}, allow_nan=False, indent=1)
    members = {_DESCRIPTION: text.encode(), _TENSORS: content.tensors}
    with whole_file(path) as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST_DATE), member)


def read_container(path: Path, largest: int = LARGEST) -> Container:
    """Read a file of at most `largest` bytes, or say what is wrong with it."""
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}.")
    if path.stat().st_size > largest:
        raise ModelFileError(
            f"{path} has {path.stat().st_size} bytes, more than the {largest} that are read. "
            "If you trust it, load it with a larger `largest`."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive.infolist())
            description = _parsed(path, archive.read(_DESCRIPTION))
            _check_format(path, description)
            return Container(description, archive.read(_TENSORS))
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
        raise ModelFileError(
            f"{path} is damaged, or no model file of totalcal ({error}). Copy or save it again."
        ) from error


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if sorted(member.filename for member in members) != [_DESCRIPTION, _TENSORS]:
        names = ", ".join(member.filename[:40] for member in members[:5])
        raise ModelFileError(
            f"{path} should hold {_DESCRIPTION} and {_TENSORS}, but holds {len(members)} members ({names}). "
            "It is no model file of totalcal."
        )
    for member in members:
        limit = _LARGEST_DESCRIPTION if member.filename == _DESCRIPTION else path.stat().st_size
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > limit:
            raise ModelFileError(
                f"{member.filename} in {path} is compressed or claims {member.file_size} bytes, where "
                f"at most {limit} stored ones are expected. totalcal did not write this file: do not use it."
            )


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the description in {path} is not valid JSON ({error}).") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"the description in {path} is a {type(content).__name__}, not an object.")
    return content


def _check_format(path: Path, description: dict[str, Any]) -> None:
    found = description.get("format")
    if not isinstance(found, int):
        raise ModelFileError(f"{path} does not say its format: it is no model file of totalcal.")
    if found > FORMAT:
        raise ModelFileError(
            f"{path} has format {found}, and this version of totalcal reads up to {FORMAT}. Upgrade totalcal."
        )
