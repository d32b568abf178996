"""Modules of TensorFlow that moved since release 2.6, and methods that it has dropped."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.earlier_names import MOVED
from ipu_tf.internals.patches import Patch, Wrap

_INITIALIZED_VALUES = Patch(
    tf.Variable, "initialized_value", "variables tell the value that they begin with"
)

_PYTHON = "tensorflow.python"
_PLACES: Mapping[str, str] = MappingProxyType(
    {
        "distribute.distribution_strategy_context": "distribute.distribute_lib",
        "dtypes": "framework.dtypes",
        "training.saving.checkpoint_options": "checkpoint.checkpoint_options",
        "training.saving.functional_saver": "checkpoint.functional_saver",
        "training.tracking": "trackable",
        "training.tracking.graph_view": "checkpoint.graph_view",
        "training.tracking.tracking": "trackable.autotrackable",
        "training.tracking.util": "checkpoint.checkpoint",
        "training.training_ops": "ops.gen_training_ops",
    }
)
"""The places of today, by the old ones, both below `tensorflow.python`. Modules of a package that
moved are in the package of today, unless they have places of their own."""

_FROM_TODAY = MappingProxyType(
    {
        f"{_PLACES[package]}.{module}": place
        for old, place in _PLACES.items()
        for package, _, module in (old.rpartition("."),)
        if package in _PLACES
    }
)
"""Places by the names that `from PACKAGE import MODULE` asks for, of a package that moved."""


class _MovedModules:
    """Finds modules in their places of today."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module that moved, None for any other."""
        del path, target
        if _place(name) is None:
            return None
        # No base class of the loader: `create_module` and `exec_module` are all it needs.
        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leaves the module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of today in the place of an old one."""
        place = _place(module.__name__)
        if place is not None:
            sys.modules[module.__name__] = importlib.import_module(place)


def _place(name: str) -> str | None:
    """Returns the name of today of a module that moved, None for any other module."""
    old = name.removeprefix(f"{_PYTHON}.")
    if old == name:
        return None
    place = _PLACES.get(old) or _FROM_TODAY.get(old)
    if place is not None:
        return f"{_PYTHON}.{place}"
    package, _, module = old.rpartition(".")
    return f"{_PYTHON}.{_PLACES[package]}.{module}" if package in _PLACES else None


@contextlib.contextmanager
def _in_their_old_places(notify: Notify) -> Iterator[None]:
    """Makes modules that moved importable by their old names."""
    del notify  # The modules are TensorFlow's own.
    finder = _MovedModules()
    # First: a package of today would load its modules once more by their old names.
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in sorted(filter(_place, sys.modules), reverse=True):
            module = sys.modules.pop(name)
            package, _, last = name.rpartition(".")
            parent = sys.modules[package]
            is_own = module.__name__ == f"{parent.__name__}.{last}"
            if vars(parent).get(last) is module and not is_own:
                delattr(parent, last)


@contextlib.contextmanager
def _moved_names(notify: Notify) -> Iterator[None]:
    """Makes names of TensorFlow's own modules known where they were."""
    del notify  # The functions are TensorFlow's own.
    with contextlib.ExitStack() as stack:
        for former, module, names in MOVED:
            for name in names:
                if not hasattr(former, name):
                    setattr(former, name, getattr(module, name))
                    stack.callback(delattr, former, name)
        yield


def _initialized_value(notify: Notify) -> Wrap:
    """Returns the factory of the method of variables that TensorFlow has for few of them."""
    del notify  # It is TensorFlow's own method.

    def wrap(stock: Any) -> Any:
        del stock  # It raises.

        def initialized_value(variable: tf.Variable) -> tf.Tensor:
            with tf.init_scope():
                return tf.cond(
                    tf.compat.v1.is_variable_initialized(variable),
                    variable.read_value,
                    lambda: variable.initial_value,
                )

        return initialized_value

    return wrap


SPELLINGS = (
    Spelling(
        name="`control_flow_ops.cond`, `control_flow_ops.while_loop`, `array_ops.stack`, "
        "`ops.Tensor` and other names of TensorFlow's modules",
        before="Names in `tensorflow.python`, before they moved to modules of their own.",
        here="The modules have them as before.",
        context=_moved_names,
    ),
    Spelling(
        name="`tensorflow.python.training.training_ops`, `tensorflow.python.training.tracking`, "
        "`tensorflow.python.training.saving.checkpoint_options`, "
        "`tensorflow.python.distribute.distribution_strategy_context`, `tensorflow.python.dtypes`",
        before="Modules of TensorFlow that moved since, which scripts import.",
        here="Each is the module of today, such as `tensorflow.python.ops.gen_training_ops`.",
        context=_in_their_old_places,
    ),
    Spelling(
        name="`variable.initialized_value()` of a `tf.Variable`",
        before="Its value, or the one that it begins with.",
        here="The same.",
        wraps=MappingProxyType({_INITIALIZED_VALUES: _initialized_value}),
    ),
)
