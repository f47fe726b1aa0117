"""The optional libraries, imported when a corruption needs them."""

from importlib import import_module
from types import ModuleType

from totalcal.errors import MissingExtraError


def opencv(purpose: str) -> ModuleType:
    return _optional("cv2", "OpenCV", purpose)


def pillow(module: str, purpose: str) -> ModuleType:
    return _optional(f"PIL.{module}", "Pillow", purpose)


def _optional(module: str, package: str, purpose: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, "corruptions", purpose) from error
