"""Tells whether the built tile ops fit the installed TensorFlow.

TensorFlow promises no stable C++ interface, so a library runs with exactly the version that it
was built for; with another one it would fail later and less clearly, or not fail.
"""

from __future__ import annotations

import importlib

import tensorflow as tf

_INFO_MODULE = "ipu_tf._build_info"


def built_for() -> str | None:
    """The TensorFlow version that the tile ops were built for; None if they were not built."""
    try:
        info = importlib.import_module(_INFO_MODULE)
    except ModuleNotFoundError:
        return None
    version: str = info.TENSORFLOW_VERSION
    return version


def check() -> None:
    """Refuses to go on unless the tile ops were built for the TensorFlow of this process.

    Raises:
        ImportError: The ops are not built, or were built for another version.
    """
    compare(built_for(), tf.__version__)


def compare(built_for: str | None, installed: str) -> None:
    """Refuses tile ops that were built for another TensorFlow, or not at all.

    Args:
        built_for: TensorFlow version of the build, as `built_for()` gives it.
        installed: Version of the TensorFlow in this process, `tf.__version__`.

    Raises:
        ImportError: The ops are not built, or the versions differ.
    """
    if built_for is None:
        raise ImportError(
            "The tile ops of ipu_tf are not built. In a checkout run './dev setup'; elsewhere "
            "install the package from its source: pip install PATH_TO_CHECKOUT"
        )
    if built_for != installed:
        raise ImportError(
            f"The tile ops of ipu_tf were built for TensorFlow {built_for}, but TensorFlow "
            f"{installed} is installed. Build them again for it (in a checkout './dev setup', "
            "elsewhere 'pip install --force-reinstall --no-cache-dir --no-deps "
            f"PATH_TO_CHECKOUT'), or install the other TensorFlow: "
            f"pip install tensorflow=={built_for}"
        )
