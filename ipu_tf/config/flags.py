"""The flags of the environment variable TF_POPLAR_FLAGS."""

from __future__ import annotations

import functools
import os
import shlex
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

VARIABLE = "TF_POPLAR_FLAGS"


class SyntheticDataCategory(Enum):
    """Kinds of data that can be made up on the device instead of coming from the host."""

    INFEED = "infeed"
    OUTFEED = "outfeed"
    SEED = "seed"
    HOSTEMBEDDING = "hostembedding"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoplarFlags:
    """The parsed flags.

    docs/config.md lists those that have an effect; the parser accepts the others so that a script's
    environment works.

    Attributes:
        use_ipu_model: Apply the checks of the software model of an IPU.
        use_synthetic_data: Make up all categories of data.
        synthetic_data_categories: The categories to make up.
        synthetic_data_initializer: How to make them up.
        executable_cache_path: Folder of compiled programs.
        null_data_feed: Feed zeros in place of data.
        max_infeed_threads: Threads that feed data; -1 leaves the choice to the system.
        show_progress_bar: "true", "false" or "auto".
        log_cycle_count: Number of the tile whose cycles are logged; -1 for none.
        on_demand_device_timeout: Milliseconds to wait for a device.
        unknown: Flags that are none of these.
    """

    use_ipu_model: bool = False
    use_synthetic_data: bool = False
    synthetic_data_categories: frozenset[SyntheticDataCategory] = frozenset()
    synthetic_data_initializer: str = ""
    executable_cache_path: str = ""
    null_data_feed: bool = False
    max_infeed_threads: int = -1
    show_progress_bar: str = "auto"
    log_cycle_count: int = -1
    on_demand_device_timeout: int = 0
    unknown: tuple[str, ...] = field(default=())


def poplar_flags() -> PoplarFlags:
    """Returns the flags that the environment holds now.

    Raises:
        ValueError: A flag has an invalid value.
    """
    return parse_poplar_flags(os.environ.get(VARIABLE, ""))


@functools.cache
def parse_poplar_flags(text: str) -> PoplarFlags:
    """Returns the flags in a text such as "--use_ipu_model --log_cycle_count=0".

    Raises:
        ValueError: A flag has an invalid value, or a quotation is left open.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE} cannot be read: {error}. Received: {text!r}.") from None
    values: dict[str, Any] = {}
    unknown = []
    for word in words:
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _PARSERS:
            unknown.append(word)
            continue
        values[name] = _PARSERS[name](name, value if has_value else None)
    return PoplarFlags(**values, unknown=tuple(unknown))


def running_on_ipu_model() -> bool:
    """Returns whether TF_POPLAR_FLAGS asks for the software model of an IPU."""
    return poplar_flags().use_ipu_model


def _invalid(name: str, expected: str, value: str | None) -> ValueError:
    return ValueError(f"The flag --{name} of {VARIABLE} takes {expected}. Received: {value!r}.")


def _bool(name: str, value: str | None) -> bool:
    if value is None:
        return True
    if value.lower() not in ("true", "1", "false", "0"):
        raise _invalid(name, "true or false", value)
    return value.lower() in ("true", "1")


def _int(name: str, value: str | None) -> int:
    try:
        return int(value or "")
    except ValueError:
        raise _invalid(name, "a whole number", value) from None


def _str(name: str, value: str | None) -> str:
    if not value:
        raise _invalid(name, "a value", value)
    return value


def _progress(name: str, value: str | None) -> str:
    if value not in (None, "true", "false", "auto"):
        raise _invalid(name, "true, false or auto", value)
    return value or "true"


def _categories(name: str, value: str | None) -> frozenset[SyntheticDataCategory]:
    by_name = {category.value: category for category in SyntheticDataCategory}
    words = _str(name, value).lower().split(",")
    if not set(words) <= set(by_name):
        raise _invalid(name, f"a list of {', '.join(by_name)}, separated by commas", value)
    return frozenset(by_name[word] for word in words)


_PARSERS = {
    "use_ipu_model": _bool,
    "use_synthetic_data": _bool,
    "synthetic_data_categories": _categories,
    "synthetic_data_initializer": _str,
    "executable_cache_path": _str,
    "null_data_feed": _bool,
    "max_infeed_threads": _int,
    "show_progress_bar": _progress,
    "log_cycle_count": _int,
    "on_demand_device_timeout": _int,
}
