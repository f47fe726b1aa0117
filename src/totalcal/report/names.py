"""Names that are safe in an address and in a file name."""

import re


def slug(text: str) -> str:
    """Letters, digits and dashes; everything else is a dash.

    >>> slug("etp (weight_kl=0)"), slug("../../etc")
    ('etp-weight_kl-0', 'etc')
    """
    return re.sub(r"\W+", "-", text).strip("-")
