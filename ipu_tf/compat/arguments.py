"""Arguments of the vendor's functions that are accepted without effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnusedArguments:
    """Arguments without effect, and why.

    Attributes:
        arguments: Their names.
        why: Why they have none.
        names: The functions and classes that take them, as the interface lists them.
    """

    arguments: tuple[str, ...]
    why: str
    names: tuple[str, ...]


_ACCUMULATION = "ipu.optimizers.gradient_accumulation_optimizer"
_ALS = "keras.ipu.optimizers.als_optimizer"
_EXTENSIONS = "keras.ipu.extensions"
_LAYERS = "ipu_tensorflow_addons.keras.layers"
_OPTIMIZERS = "ipu_tensorflow_addons.keras.optimizers"
_RNN = "ipu_tensorflow_addons.v1.layers"
_SPEC = "ipu.ops.embedding_ops.HostEmbeddingOptimizerSpec"
_QUEUES = ("ipu.ipu_infeed_queue.IPUInfeedQueue", "ipu.ipu_outfeed_queue.IPUOutfeedQueue")

UNUSED_ARGUMENTS = (
    UnusedArguments(
        ("device",),
        "There is one CPU device beside the IPUs.",
        ("ipu.config.configure_ipu_system", "ipu.utils.get_num_of_ipus_in_device"),
    ),
    UnusedArguments(
        ("cpu_device",),
        "There is one CPU device beside the IPUs.",
        ("ipu.utils.reset_ipu_seed",),
    ),
    UnusedArguments(
        ("options",),
        "They are for strategies that place functions on several devices.",
        ("ipu.ipu_strategy.IPUStrategyV1.run",),
    ),
    UnusedArguments(
        ("var_list",),
        "All variables are on one device.",
        ("ipu.ipu_strategy.IPUExtendedV1.non_slot_devices",),
    ),
    UnusedArguments(
        ("use_while_v1",),
        "There is one kind of loop.",
        ("ipu.loops.while_loop", "ipu.loops.repeat"),
    ),
    UnusedArguments(("device_ordinal",), "The scope of the strategy tells the device.", _QUEUES),
    UnusedArguments(("optimise_latency",), "The simulated host copies nothing.", _QUEUES),
    UnusedArguments(
        ("wait_for_completion",),
        "The queue holds every element that a program has enqueued when its run returns.",
        ("ipu.ipu_outfeed_queue.IPUOutfeedQueue.dequeue",),
    ),
    UnusedArguments(
        ("apply_debug_options",),
        "tf.data's own options apply.",
        ("ipu.dataset_benchmark.dataset_benchmark",),
    ),
    UnusedArguments(
        (
            "forward_propagation_stages_poplar_options",
            "backward_propagation_stages_poplar_options",
            "weight_update_poplar_options",
        ),
        "They are checked; all stages have the plans of the device's options.",
        ("ipu.ops.pipelining_ops.pipeline",),
    ),
    UnusedArguments(
        ("poplar_options",),
        "They are checked; a served program has the plans of its device.",
        ("ipu.serving.export_pipeline",),
    ),
    UnusedArguments(
        ("timeout",),
        "The engine waits for inputs without a limit, because a call brings all of them.",
        ("ipu.ops.embedded_runtime.embedded_runtime_start",),
    ),
    UnusedArguments(
        ("unique_sharding", "keep_input_layouts"),
        "The compiler outlines and chooses layouts by itself.",
        ("ipu.ops.functional_ops.outlined_function",),
    ),
    UnusedArguments(("offload",), "Values wait on the tiles.", ("ipu.ops.internal_ops.fifo",)),
    UnusedArguments(
        ("stable",),
        "The largest value is always subtracted first.",
        ("ipu.ops.nn_ops.softmax",),
    ),
    UnusedArguments(
        ("training",),
        "Training and inference compute the same.",
        (
            *(f"ipu.ops.normalization_ops.{kind}_norm" for kind in ("group", "layer", "instance")),
            f"{_LAYERS}.dense.SerialDense.call",
            f"{_LAYERS}.embedding_lookup.Embedding.call",
            *(
                f"{_LAYERS}.normalization.{kind}Normalization.call"
                for kind in ("Group", "Instance", "Layer")
            ),
            *(
                f"{_RNN}.Popnn{kind}.call"
                for kind in ("LSTM", "DynamicLSTM", "GRU", "DynamicGRU", "AUGRU")
            ),
        ),
    ),
    UnusedArguments(
        ("options",),
        "They are checked. The convolutions run, and are charged, one after the other on all "
        "tiles, each with the plan of the device's options.",
        ("ipu.ops.nn_ops.multi_conv",),
    ),
    UnusedArguments(
        ("inplace",),
        "The compiler shares memory where it can.",
        ("ipu.ops.cross_replica_ops.assume_equal_across_replicas",),
    ),
    UnusedArguments(
        ("indices_are_sorted",),
        "Rows are gathered in any order.",
        ("ipu.ops.embedding_ops.embedding_lookup",),
    ),
    UnusedArguments(
        ("partition_strategy",),
        "One host has the whole table.",
        (
            "ipu.ops.embedding_ops.HostEmbedding",
            "ipu.ops.embedding_ops.create_host_embedding",
            f"{_SPEC}.create_lookup_instruction",
        ),
    ),
    UnusedArguments(
        ("embedding_tensor", "slot_vars", "name"),
        "The table is in the host's memory at all times.",
        (f"{_SPEC}.create_register_instruction", f"{_SPEC}.create_deregister_instruction"),
    ),
    UnusedArguments(
        ("session",),
        "The host looks rows up with and without a session.",
        ("ipu.ops.embedding_ops.HostEmbedding.register",),
    ),
    UnusedArguments(
        ("var",),
        "Gradients of all variables are summed in one way.",
        ("ipu.optimizers.cross_replica_optimizer.apply_cross_replica_op_single",),
    ),
    UnusedArguments(
        ("offload_weight_update_variables", "replicated_optimizer_state_sharding"),
        "They place data, not numbers. Keras' `set_gradient_accumulation_options` has them in its "
        "figures.",
        (
            f"{_ACCUMULATION}.GradientAccumulationOptimizerV2",
            f"{_ACCUMULATION}.CrossReplicaGradientAccumulationOptimizerV2",
        ),
    ),
    UnusedArguments(
        ("verify_usage",),
        "The usage is always verified.",
        (
            f"{_ACCUMULATION}.GradientAccumulationOptimizer",
            f"{_ACCUMULATION}.CrossReplicaGradientAccumulationOptimizer",
        ),
    ),
    UnusedArguments(
        ("variables_on_host",),
        "Memory of the host and of the device is one.",
        ("ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1",),
    ),
    UnusedArguments(
        ("use_v2_gradient_accumulation_optimizer",),
        "There is one way to accumulate, and any Keras optimizer works with it.",
        tuple(
            f"{_EXTENSIONS}.{kind}Extension.set_gradient_accumulation_options"
            for kind in ("Functional", "Sequential", "Model")
        ),
    ),
    UnusedArguments(
        ("name", "experimental_aggregate_gradients"),
        "Replicas sum gradients in the training loop.",
        (f"{_ALS}.ALSGradientAccumulationOptimizer.apply_gradients",),
    ),
    UnusedArguments(
        ("name",),
        "Operations have the names of their scopes.",
        (f"{_ALS}.ALSOptimizer.apply_gradients",),
    ),
    UnusedArguments(
        ("implementation",),
        "There is one implementation.",
        (f"{_LAYERS}.rnn.PopnnLSTM", f"{_LAYERS}.rnn.PopnnGRU"),
    ),
    UnusedArguments(
        ("ipusPerReplica",), "The IPUs of this process begin with 0.", ("popdist.getDeviceId",)
    ),
    UnusedArguments(
        ("slot_name",),
        "All slots of a variable have one dtype.",
        (
            f"{_OPTIMIZERS}.ipu_optimizer_base.IpuOptimizerBase.get_slot_dtype",
            f"{_OPTIMIZERS}.sgd_optimizer.SGDIpuOptimizer.get_slot_dtype",
        ),
    ),
    UnusedArguments(
        ("options", "options_bwd"),
        "Plans are those of the device's options.",
        tuple(
            f"{_RNN}.Popnn{kind}" for kind in ("LSTM", "DynamicLSTM", "GRU", "DynamicGRU", "AUGRU")
        ),
    ),
)
"""Arguments without effect; names without effect are in `states.WITHOUT_EFFECT`."""


def unused_arguments() -> Iterator[tuple[str, str]]:
    """Returns the pairs of a name of the interface and an argument that has no effect on it."""
    return (
        (name, argument)
        for unused in UNUSED_ARGUMENTS
        for name in unused.names
        for argument in unused.arguments
    )
