"""The context in which TensorFlow and NumPy understand their earlier spellings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ipu_tf.compat.spellings.loading import TensorFlowLoading


@contextlib.contextmanager
def spellings_of_tensorflow() -> Iterator[None]:
    """Adapts TensorFlow and NumPy, at once or once TensorFlow is loaded, until it closes."""
    with contextlib.ExitStack() as stack:
        if "tensorflow" in sys.modules:
            _adapt(stack)
        else:
            loading = TensorFlowLoading(lambda: _adapt(stack))
            sys.meta_path.insert(0, loading)
            stack.callback(loading.stop)
        yield


def _adapt(stack: contextlib.ExitStack) -> None:
    """Adapts TensorFlow and NumPy until a stack closes."""
    # They load TensorFlow.
    from ipu_tf.compat.spellings.adaptation import adapted_methods
    from ipu_tf.compat.spellings.spelling import Notices
    from ipu_tf.compat.spellings.table import SPELLINGS

    stack.enter_context(adapted_methods(SPELLINGS, Notices()))
