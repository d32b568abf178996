"""Whether models of tf_keras, which is Keras 2, may come up in a process."""

from __future__ import annotations

import importlib.util
import os
import sys

_CHOICES = ("1", "true")
"""The values of TF_USE_LEGACY_KERAS, in lower case, by which `tf.keras` is tf_keras."""


def may_use_tf_keras() -> bool:
    """Returns whether tf_keras is loaded, or is installed and chosen for `tf.keras`."""
    if "tf_keras" in sys.modules:
        return True
    is_chosen = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in _CHOICES
    return is_chosen and importlib.util.find_spec("tf_keras") is not None
