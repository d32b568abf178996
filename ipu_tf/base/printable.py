"""Names of files, as terminals may show them: without characters that would act on the terminal."""

from __future__ import annotations

import re
from typing import TypeVar, cast

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters but for tabs and ends of lines; marks that turn text round; surrogates."""

_NUMBERS = {int, float}


_T = TypeVar("_T")


def printable(data: _T) -> _T:
    """Returns plain data whose texts show such characters by their codes: an escape as `\\x1b`.

    Args:
        data: Text, or the content of a JSON file.
    """
    return cast(_T, _with_codes(data))


def _with_codes(data: object) -> object:
    if isinstance(data, str):
        return _ACTING.sub(_code, data) if _ACTING.search(data) else data
    if isinstance(data, dict):
        return {_with_codes(key): _with_codes(entry) for key, entry in data.items()}
    if isinstance(data, list):
        if set(map(type, data)) <= _NUMBERS:  # Files have long lists.
            return data
        return [_with_codes(entry) for entry in data]
    return data


def _code(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()
