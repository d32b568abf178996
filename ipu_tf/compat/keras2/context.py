"""The context in which Keras 3 understands Keras 2."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from ipu_tf.compat.modules import KERAS_HOSTS
from ipu_tf.compat.spellings.loading import Keras2Finder, KerasLoading


@contextlib.contextmanager
def keras_2_spellings() -> Iterator[None]:
    """Adapts Keras 3 to the spellings of Keras 2; afterwards all is as before.

    Keras is not loaded: if it is not there yet, it is adapted once it is. A context within another
    one does nothing.
    """
    is_open = any(isinstance(finder, Keras2Finder) for finder in sys.meta_path)
    with contextlib.ExitStack() as stack:
        if is_open:
            pass
        elif "keras" in sys.modules:
            _adapt(stack)
        else:
            _adapt_once_loaded(stack)
        yield


def _adapt(stack: contextlib.ExitStack) -> None:
    """Adapts Keras until a stack closes."""
    # They load Keras.
    from ipu_tf.compat.keras2.module_names import (
        ModuleNames,
        NamesOfKeras2Finder,
        forget_modules_of,
    )
    from ipu_tf.compat.keras2.table import SPELLINGS
    from ipu_tf.compat.spellings.adaptation import adapted_methods
    from ipu_tf.compat.spellings.spelling import Notices

    notices = Notices()
    stack.enter_context(adapted_methods(SPELLINGS, notices))
    names = ModuleNames(SPELLINGS, notices)
    finder = NamesOfKeras2Finder(names)
    stack.callback(forget_modules_of, finder)
    stack.callback(names.remove)
    stack.callback(sys.meta_path.remove, finder)
    sys.meta_path.insert(0, finder)
    for name, module in tuple(sys.modules.items()):
        if name.startswith(KERAS_HOSTS) and isinstance(module, ModuleType):
            names.add_to(module)


def _adapt_once_loaded(stack: contextlib.ExitStack) -> None:
    """Adapts Keras once it is imported, until a stack closes."""
    loading = KerasLoading(lambda: _adapt(stack))
    sys.meta_path.insert(0, loading)
    stack.callback(loading.stop)
