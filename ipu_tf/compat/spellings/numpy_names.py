"""Names of NumPy that NumPy has dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap

_NUMPY_NAMES = Patch(np, "__getattr__", "NumPy has the names that it dropped")


def _asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """Returns an array of floating-point numbers, float64 unless the dtype is one of them."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def _asscalar(a: np.ndarray) -> Any:
    """Returns the only element of an array as a Python number."""
    return a.item()


def _msort(a: Any) -> np.ndarray:
    """Returns an array sorted along its first axis."""
    return np.sort(a, axis=0)


_NAMES: Mapping[str, Any] = MappingProxyType(
    {
        "int": int,
        "float": float,
        "complex": complex,
        "object": object,
        "str": str,
        "unicode": str,
        "bool8": np.bool_,
        "int0": np.intp,
        "uint0": np.uintp,
        "float_": np.float64,
        "complex_": np.complex128,
        "string_": np.bytes_,
        "unicode_": np.str_,
        "Inf": np.inf,
        "Infinity": np.inf,
        "infty": np.inf,
        "PINF": np.inf,
        "NINF": -np.inf,
        "NaN": np.nan,
        "NAN": np.nan,
        "alltrue": np.all,
        "asfarray": _asfarray,
        "asscalar": _asscalar,
        "cumproduct": np.cumprod,
        "in1d": np.isin,
        "mat": np.asmatrix,
        "msort": _msort,
        "product": np.prod,
        "round_": np.round,
        "sometrue": np.any,
        "trapz": np.trapezoid,
    }
)


def _with_dropped_names(notify: Notify) -> Wrap:
    def wrap(stock: Callable[[str], Any]) -> Callable[[str], Any]:
        def attribute(name: str) -> Any:
            if name not in _NAMES:
                return stock(name)
            notify()
            return _NAMES[name]

        return attribute

    return wrap


SPELLINGS = (
    Spelling(
        name="`np.int`, `np.float`, `np.object`, `np.Inf`, `np.NaN`, `np.product`, `np.in1d`, ... "
        "of NumPy",
        before="NumPy had these names at the time.",
        here="They are `int`, `float`, `object`, `np.inf`, `np.nan`, `np.prod`, `np.isin`, ...",
        wraps=MappingProxyType({_NUMPY_NAMES: _with_dropped_names}),
    ),
)
