"""Planner options in Poplar's form: dictionaries from names to strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ipu_tf.config.device import Partials, PlannerOptions

PARTIALS_KEY = "partialsType"
PROPORTION_KEY = "availableMemoryProportion"
_KEYS = (PARTIALS_KEY, PROPORTION_KEY)

_PARTIALS: dict[str, Partials] = {
    "half": "float16",
    "float16": "float16",
    "float": "float32",
    "float32": "float32",
}


def parse_partials(value: object) -> Partials | None:
    """Returns the type of partials that a name or a data type stands for, or None.

    Args:
        value: "half", "float", "float16", "float32", or a NumPy or TensorFlow data type.
    """
    names = (value, *_names(value))
    return next((_PARTIALS[n] for n in names if isinstance(n, str) and n in _PARTIALS), None)


def data_type_name(value: object) -> object:
    """Returns the name of a data type, "float16" of `tf.float16` and of `np.float16`.

    Returns any other value unchanged.
    """
    is_data_type = isinstance(value, np.dtype | type) or hasattr(value, "as_numpy_dtype")
    return next(_names(value), value) if is_data_type else value


def _names(value: object) -> Iterator[str]:
    """Yields the names of a value that is not text; avoids TensorFlow, which takes seconds to load.

    Data types have a name (`tf.float16.name`), scalar classes a __name__ (`np.float16`).
    """
    for attribute in ("name", "__name__"):
        name = getattr(value, attribute, None)
        if isinstance(name, str):
            yield name


def planner_options(options: Mapping[str, object], path: str) -> PlannerOptions:
    """Returns the planner options that a dictionary of Poplar options asks for.

    Args:
        options: Options by Poplar's names; unknown keys are ignored.
        path: Dotted name of the dictionary, for errors.

    Raises:
        TypeError: A key is not a string.
        ValueError: The partials type is unknown, or the proportion is not in (0, 1].
    """
    return PlannerOverrides.of(options, path).over(PlannerOptions())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerOverrides:
    """What a dictionary of Poplar options says of a planner; None says nothing.

    Attributes:
        partials: As in `PlannerOptions`.
        available_memory_proportion: As in `PlannerOptions`.
    """

    partials: Partials | None = None
    available_memory_proportion: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, object], path: str) -> PlannerOverrides:
        """Returns those of a dictionary; see `planner_options` for arguments and errors."""
        for key in options:
            if not isinstance(key, str):
                raise TypeError(
                    f"The keys of {path} are option names. Received: {key!r} of type "
                    f"{type(key).__name__}."
                )
        has_partials, has_proportion = (key in options for key in _KEYS)
        return cls(
            partials=_partials(options[PARTIALS_KEY], path) if has_partials else None,
            available_memory_proportion=(
                _proportion(options[PROPORTION_KEY], path) if has_proportion else None
            ),
        )

    def over(self, defaults: PlannerOptions) -> PlannerOptions:
        """Returns the options where these say nothing, and else these."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return dataclasses.replace(
            defaults, **{name: value for name, value in values.items() if value is not None}
        )


def keys_without_effect(options: Mapping[str, object], path: str) -> tuple[str, ...]:
    """Returns the entries of a dictionary of Poplar options that do nothing here.

    Planners have their keys, the graph compiler those that ask for reports.
    """
    return tuple(
        f"{path}[{key!r}]"
        for key in options
        if key not in _KEYS and not str(key).startswith("autoReport.")
    )


def _partials(value: object, path: str) -> Partials:
    partials = parse_partials(value)
    if partials is None:
        raise ValueError(
            f"{path}['{PARTIALS_KEY}'] must be 'half' (float16) or 'float' (float32). "
            f"Received: {value!r}."
        )
    return partials


def _proportion(value: object, path: str) -> float:
    proportion = None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            proportion = float(value)
        except ValueError:
            proportion = None
    # Written so that NaN fails as well.
    if proportion is None or not 0.0 < proportion <= 1.0:
        raise ValueError(
            f"{path}['{PROPORTION_KEY}'] must be a number above 0 and at most 1, as a string or "
            f"a number. Received: {value!r}."
        )
    return proportion
