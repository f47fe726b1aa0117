"""No command of these tests looks at a folder of the user's."""

from ..data.conftest import cache  # noqa: F401
