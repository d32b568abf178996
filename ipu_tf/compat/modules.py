"""The vendor's modules, and the modules here that have their names.

This file and `finder` are loaded at the start of every Python whose environment has the aliases
enabled: they import little.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

TF_KERAS = "tf_keras.api._v2.keras"
"""The package that scripts of Keras 2 get for `keras`."""

ROOTS = {
    "tensorflow.python.ipu": "ipu",
    "tensorflow.contrib.ipu.python": "ipu",
    "tensorflow.contrib.ipu": "ipu",
    "keras.ipu": "keras.ipu",
    "keras._tf_keras.keras.ipu": "keras.ipu",
    "tensorflow.keras.ipu": "keras.ipu",
    f"{TF_KERAS}.ipu": "keras.ipu",
    "ipu_tensorflow_addons": "ipu_tensorflow_addons",
    "popdist": "popdist",
    "horovod": "horovod",
    "libpvti": "libpvti",
    "tensorflow.compiler.plugin": "plugin",
}
"""The packages that scripts import, by the short name that documents and tables use."""

HOSTS = ("keras", "keras._tf_keras.keras", "tensorflow.keras", TF_KERAS)
"""Module objects of Keras; each of them has an attribute `ipu`."""

_OF_EXTENSIONS = (
    "extensions.functional_extensions",
    "extensions.model_extensions",
    "extensions.pipeline_stage_assignment",
    "extensions.sequential_extensions",
)
"""Modules whose names lie in two rooms here."""

GENERATED_OPS = "plugin.poplar.ops"
"""The package of the operations of the vendor's plugin."""

_OPTIMIZERS = (
    "cross_replica_optimizer",
    "gradient_accumulation_optimizer",
    "ipu_optimizer",
    "map_gradient_optimizer",
    "sharded_optimizer",
)

_RENAMED = (
    ("ipu.horovod", "ipu.distributed"),
    ("ipu.keras", "keras.ipu"),
    *((f"ipu.{name}", f"ipu.optimizers.{name}") for name in _OPTIMIZERS),
)
"""Names of a package of before, and today's."""

_EARLIER_MODELS = "ipu_tf.compat.tf_keras.earlier_models"

_HOMES = (
    ("ipu.ops.application_compile_op", "ipu_tf.serving.application_compile_op"),
    ("ipu.application_compile_op", "ipu_tf.serving.application_compile_op"),
    ("ipu.ops.embedded_runtime", "ipu_tf.serving.embedded_runtime"),
    ("ipu.embedded_runtime", "ipu_tf.serving.embedded_runtime"),
    ("ipu.distributed.host_collective_ops", "ipu_tf.distributed"),
    ("keras.ipu.layers.capture_upstream_gradients", "ipu_tf.keras.layers"),
    ("ipu_tensorflow_addons.layers", "ipu_tf.ops.rnn_ops"),
    ("ipu_tensorflow_addons.layers.rnn_ops", "ipu_tf.ops.rnn_ops"),
    ("ipu_tensorflow_addons.v1.layers", "ipu_tf.ops.rnn_ops"),
    *(
        (f"keras.ipu.{name}", home)
        for name in ("extensions", *_OF_EXTENSIONS)
        for home in ("ipu_tf.keras.extensions", "ipu_tf.keras.pipeline")
    ),
    # Before the models of today, which take no such arguments. For tf_keras alone.
    *((name, _EARLIER_MODELS) for name in ("ipu.keras", "keras.ipu")),
    ("keras.ipu", "ipu_tf.keras"),
    ("ipu_tensorflow_addons.keras", "ipu_tf.keras"),
    ("ipu.ops", "ipu_tf.ops"),
    ("ipu.ops.pipelining_ops", "ipu_tf.pipelining"),
    ("ipu.autoshard", "ipu_tf.compat.autoshard"),
    ("ipu.horovod", "ipu_tf.compat.horovod"),
    ("ipu.utils", "ipu_tf.compat.configuration_functions"),
    ("ipu.ipu_session_run_hooks", "ipu_tf.compat.ipu_session_run_hooks"),
    ("ipu", "ipu_tf"),
    ("ipu", "ipu_tf.ops"),
    ("horovod.tensorflow", "ipu_tf.compat.horovod"),
    ("popdist", "ipu_tf.compat.popdist"),
    ("libpvti", "ipu_tf.compat.libpvti"),
)
"""Packages of the vendor's, and those here that mirror them."""

SHOWS_ITS_MODULES = (
    "ipu.distributed",
    "ipu.optimizers",
    "ipu_tensorflow_addons.keras.layers",
    "ipu_tensorflow_addons.keras.optimizers",
    "keras.ipu.extensions",
    "keras.ipu.optimizers",
)
"""Packages whose modules' names are names of the package, too."""


_FOR_TF_KERAS = (
    ("ipu_tf.keras.layers", "ipu_tf.keras.tf_keras.layers"),
    ("ipu_tf.keras.optimizers", "ipu_tf.keras.tf_keras.optimizers"),
)
"""Rooms for Keras 3, and those with the same names for tf_keras."""

_MODELS = ("ipu_tf.keras", "ipu_tf.keras.tf_keras.models")
"""Names of models, before others that serve any Keras."""

_modules: set[str] = set()
_chosen = {"keras": 3}


def vendor_modules() -> Set[str]:
    """Returns every module of the vendor's, by its short name. The first call reads the file."""
    if not _modules:
        folder = os.path.dirname(__file__)
        with open(os.path.join(folder, "vendor_modules.txt"), encoding="utf-8") as file:
            _modules.update(file.read().split())
    return _modules


def short_name(name: str) -> str | None:
    """Returns the short name of a vendor's module, or None for any other module."""
    for root, short in ROOTS.items():
        if name == root or name.startswith(root + "."):
            vendor_name = short + name[len(root) :]
            return vendor_name if vendor_name in vendor_modules() else None
    return None


def current_name(short: str) -> str:
    """Returns a short name with packages of before replaced by today's."""
    return _with_prefix(short, _RENAMED) or short


def choose_keras(version: int) -> None:
    """Sets the Keras whose layers and optimizers modules have that name none by themselves."""
    _chosen["keras"] = version


def is_for_tf_keras(name: str) -> bool:
    """Returns whether a module of the vendor's, by its full name, has layers of tf_keras."""
    if name.startswith(("keras.", f"{TF_KERAS}.")):
        return name.startswith(TF_KERAS)
    return _chosen["keras"] == 2


def homes(short: str, *, tf_keras: bool = False) -> tuple[str, ...]:
    """Returns the modules here, some of which may not exist, that have a vendor module's names.

    Args:
        short: The short name of the vendor's module.
        tf_keras: Whether its layers and models are of tf_keras.
    """
    if short.startswith(f"{GENERATED_OPS}."):
        return (short.replace(GENERATED_OPS, "ipu_tf.compat"),)
    names = dict.fromkeys((short, current_name(short)))
    names_here = (_with_prefix(name, (pair,)) for name in names for pair in _HOMES)
    places = tuple(filter(None, names_here))
    if tf_keras:
        return tuple(_homes_for_tf_keras(places))
    return tuple(home for home in places if not home.startswith(_EARLIER_MODELS))


def _homes_for_tf_keras(homes: Iterable[str]) -> Iterator[str]:
    for home in homes:
        if home == _MODELS[0]:
            yield _MODELS[1]
        yield _with_prefix(home, _FOR_TF_KERAS) or home


def _with_prefix(name: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
    for old, new in pairs:
        if name == old or name.startswith(old + "."):
            return new + name[len(old) :]
    return None
