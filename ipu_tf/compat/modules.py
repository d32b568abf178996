"""The vendor's modules, and the modules here that have their names.

This file and `finder` are loaded at the start of every Python whose environment has the aliases
enabled: they import little.
"""

from __future__ import annotations

ROOTS = {
    "tensorflow.python.ipu": "ipu",
    "tensorflow.contrib.ipu.python": "ipu",
    "tensorflow.contrib.ipu": "ipu",
    "keras.ipu": "keras.ipu",
    "keras._tf_keras.keras.ipu": "keras.ipu",
    "tensorflow.keras.ipu": "keras.ipu",
    "ipu_tensorflow_addons": "ipu_tensorflow_addons",
    "popdist": "popdist",
    "libpvti": "libpvti",
    "tensorflow.compiler.plugin": "plugin",
}
"""The packages that scripts import, by the short name that documents and tables use."""

KERAS_HOSTS = ("keras", "keras._tf_keras.keras", "tensorflow.keras")
"""Three module objects of Keras; each of them has an attribute `ipu`."""

_OPS = (
    "all_to_all_op",
    "application_compile_op",
    "control_flow_ops",
    "cross_replica_ops",
    "custom_ops",
    "embedded_runtime",
    "embedding_ops",
    "f8_ops",
    "functional_ops",
    "grad_util_ops",
    "image_ops",
    "internal_ops",
    "math_ops",
    "nn_ops",
    "normalization_ops",
    "op_util",
    "pipelining_ops",
    "rand_ops",
    "reduce_scatter_op",
    "replication_ops",
    "rnn_ops",
    "rnn_ops",
    "slicing_ops",
    "statistics_ops",
    "within_replica_ops",
)

_OPTIMIZERS = (
    "cross_replica_optimizer",
    "gradient_accumulation_optimizer",
    "ipu_optimizer",
    "map_gradient_optimizer",
    "sharded_optimizer",
)

_OF_IPU = (
    "autoshard",
    "config",
    "data",
    "data.ops",
    "data.ops.dataset_ops",
    "dataset_benchmark",
    "dataset_extractor",
    "distributed",
    "distributed.popdist_strategy",
    "eager",
    "eager.backprop",
    "gradient_accumulation",
    "horovod",
    "horovod.ipu_multi_replica_strategy",
    "horovod.popdist_strategy",
    "ipu_compiler",
    "ipu_estimator",
    "ipu_infeed_queue",
    "ipu_multi_worker_strategy",
    "ipu_outfeed_queue",
    "ipu_pipeline_estimator",
    "ipu_run_config",
    "ipu_session_run_hooks",
    "ipu_strategy",
    "keras_extensions",
    "loops",
    "ops",
    "optimizers",
    "optimizers.cross_replica_optimizer",
    "optimizers.gradient_accumulation_optimizer",
    "optimizers.ipu_optimizer",
    "optimizers.map_gradient_optimizer",
    "optimizers.sharded_optimizer",
    "scopes",
    "serving",
    "sharding",
    "utils",
)

_OF_EXTENSIONS = (
    "extensions.functional_extensions",
    "extensions.model_extensions",
    "extensions.pipeline_stage_assignment",
    "extensions.sequential_extensions",
)
"""Modules whose names lie in two rooms here."""

_OF_KERAS = (
    "extensions",
    *_OF_EXTENSIONS,
    "extensions.data_adapter",
    "extensions.extensions_base",
    "layers",
    "optimizers",
    "optimizers.adam",
    "optimizers.als_optimizer",
    "optimizers.cross_replica_optimizer",
    "optimizers.gradient_accumulation_optimizer",
    "optimizers.gradient_descent",
    "optimizers.rmsprop",
)

_OF_ADDONS = (
    "keras",
    "keras.experimental",
    "keras.experimental.auto_pipeline",
    "keras.experimental.auto_pipeline.prediction",
    "keras.experimental.auto_pipeline.prediction.max_throughput",
    "keras.experimental.auto_pipeline.prediction.partition",
    "keras.experimental.auto_pipeline.prediction.partition_evaluate",
    "keras.experimental.auto_pipeline.utils",
    "keras.experimental.auto_pipeline.utils.keras_utils",
    "keras.experimental.auto_pipeline.utils.profiler",
    "keras.experimental.auto_pipeline.utils.pva_utils",
    "keras.experimental.auto_pipeline.utils.types",
    "keras.experimental.auto_pipeline.utils.types_utils",
    "keras.layers",
    "keras.layers.assume_equal_across_replicas",
    "keras.layers.ctc",
    "keras.layers.dense",
    "keras.layers.dropout",
    "keras.layers.effective_transformer",
    "keras.layers.embedding_lookup",
    "keras.layers.f8_convert",
    "keras.layers.ipu_layer",
    "keras.layers.normalization",
    "keras.layers.recomputation",
    "keras.layers.rnn",
    "keras.optimizers",
    "keras.optimizers.adam_optimizer",
    "keras.optimizers.ipu_optimizer_base",
    "keras.optimizers.lamb_optimizer",
    "keras.optimizers.sgd_optimizer",
    "layers",
    "layers.rnn_ops",
    "v1",
    "v1.layers",
)

GENERATED_OPS = "plugin.poplar.ops"
"""The package of the operations of the vendor's plugin."""

_GENERATED = (
    "gen_functional_ops",
    "gen_ipu_ops",
    "gen_pop_datastream_ops",
    "gen_popnn_ops",
    "gen_popops_ops",
    "gen_poprand_ops",
    "gen_poputil_ops",
    "gen_sendrecv_ops",
)
"""Modules of operations of the vendor's plugin."""

MODULES = frozenset(
    (
        *ROOTS.values(),
        *(f"ipu.{name}" for name in (*_OF_IPU, *_OPS, *_OPTIMIZERS)),
        *(f"ipu.ops.{name}" for name in _OPS),
        "ipu.keras",
        *(f"ipu.keras.{name}" for name in _OF_KERAS),
        *(f"keras.ipu.{name}" for name in _OF_KERAS),
        *(f"ipu_tensorflow_addons.{name}" for name in _OF_ADDONS),
        "popdist.tensorflow",
        "plugin.poplar",
        GENERATED_OPS,
        *(f"{GENERATED_OPS}.{name}" for name in _GENERATED),
    )
)
"""Every module of the vendor's, by its short name."""

_RENAMED = (
    ("ipu.horovod", "ipu.distributed"),
    ("ipu.keras", "keras.ipu"),
    *((f"ipu.{name}", f"ipu.optimizers.{name}") for name in _OPTIMIZERS),
)
"""Names of a package of before, and today's."""

_HOMES = (
    ("ipu.ops.application_compile_op", "ipu_tf.serving.application_compile_op"),
    ("ipu.application_compile_op", "ipu_tf.serving.application_compile_op"),
    ("ipu.ops.embedded_runtime", "ipu_tf.serving.embedded_runtime"),
    ("ipu.embedded_runtime", "ipu_tf.serving.embedded_runtime"),
    ("ipu_tensorflow_addons.layers", "ipu_tf.ops.rnn_ops"),
    ("ipu_tensorflow_addons.layers.rnn_ops", "ipu_tf.ops.rnn_ops"),
    ("ipu_tensorflow_addons.v1.layers", "ipu_tf.ops.rnn_ops"),
    *(
        (f"keras.ipu.{name}", home)
        for name in ("extensions", *_OF_EXTENSIONS)
        for home in ("ipu_tf.keras.extensions", "ipu_tf.keras.pipeline")
    ),
    # Before the models of today, which take no such arguments.
    *((name, "ipu_tf.compat.earlier_models") for name in ("ipu.keras", "keras.ipu")),
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
    ("popdist", "ipu_tf.compat.popdist"),
    ("libpvti", "ipu_tf.compat.libpvti"),
    *((f"{GENERATED_OPS}.{name}", f"ipu_tf.compat.{name}") for name in _GENERATED),
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


def short_name(name: str) -> str | None:
    """Returns the short name of a vendor's module, or None for any other module."""
    for root, short in ROOTS.items():
        if name == root or name.startswith(root + "."):
            found = short + name[len(root) :]
            return found if found in MODULES else None
    return None


def current_name(short: str) -> str:
    """Returns a short name with packages of before replaced by today's."""
    return _replaced(short, _RENAMED) or short


def homes(short: str) -> tuple[str, ...]:
    """Returns the modules here, some of which may not exist, that have a vendor module's names."""
    names = dict.fromkeys((short, current_name(short)))
    mirrored = (_replaced(name, (pair,)) for name in names for pair in _HOMES)
    return tuple(filter(None, mirrored))


def _replaced(name: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
    for old, new in pairs:
        if name == old or name.startswith(old + "."):
            return new + name[len(old) :]
    return None
