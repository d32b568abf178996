"""Options of the simulated machine and of its connection to a process."""

from __future__ import annotations

from ipu_tf.config.category import Category
from ipu_tf.config.declaration import option
from ipu_tf.config.enums import DeviceConnectionType
from ipu_tf.machine.system import System
from ipu_tf.machine.target import Target


class DeviceConnection(Category):
    """How a process attaches to its IPUs."""

    type: DeviceConnectionType = option(
        DeviceConnectionType.ALWAYS,
        "The time at which the process attaches to the IPUs.",
        "With NEVER and PRE_COMPILE programs are compiled and do not run: variables keep their "
        "values. With PRE_COMPILE results are zeros, with NEVER an InvalidArgumentError. ON_DEMAND "
        "is the same as ALWAYS.",
    )
    version: str = option(
        "",
        'IPU generation to compile for without a device: "ipu1", "ipu2" or "ipu21". '
        "Needed when the connection type is NEVER or PRE_COMPILE.",
        "Selects the simulated generation, as `ipu_model.version` does.",
    )
    enable_remote_buffers: bool = option(
        False,
        "Assume that the device has streaming memory when programs are compiled without a device.",
    )


class IpuModel(Category):
    """The software model of an IPU."""

    compile_ipu_code: bool = option(
        True, "Compile the vertices for the IPU, so that their code size is known."
    )
    tiles_per_ipu: int = option(
        0,
        "Number of tiles of each IPU; 0 takes all tiles of the chip.",
        "Makes a smaller machine: plans use this many tiles.",
    )
    version: str = option(
        "ipu2",
        'IPU generation of the model: "ipu1" or "ipu2".',
        'When set, selects the generation: "ipu1" is gc2, "ipu2" is bow or gc200, "ipu21" is c600.',
    )


class Simulator(Category):
    """The simulation. This category is the project's own."""

    chip: str | Target | System = option(
        "bow",
        'The chip: "gc2", "gc200", "bow" or "c600"; or an `ipu_tf.machine.Target` or `System` of '
        "your own.",
        "Selects the chip with its tiles, memory and clock; a system also selects links and host.",
    )
    numerics: str = option(
        "tiles",
        'The kernels of matmuls and convolutions: "tiles" executes their plans tile by tile, '
        '"native" uses TensorFlow\'s own kernels.',
        "Selects the kernels.",
    )
    out_of_memory: str = option(
        "raise",
        'The response to a program that does not fit in tile memory: "raise" raises an error, '
        '"warn" logs a warning and runs the program.',
        "Applies to the plan of every operation and to the program as a whole.",
    )
    unsupported: str = option(
        "raise",
        'The response to an operation without a cost on the machine: "raise" raises an error, '
        '"warn" logs a warning, runs the program and marks its report as incomplete.',
        "Applies to the operations of every program.",
    )
    engine: str = option(
        "auto",
        'What runs the functions of `strategy.run` and the loops of Keras on this machine: "graph" '
        'is TensorFlow\'s graph executor, "xla" compiles every function that XLA can run, "auto" '
        "those that run many small operations in loops, and those with `jit_compile=True`.",
        "Applies to functions without effects beside their results, whose report says the choice, "
        "and to the loops of `fit`, `evaluate` and `predict`, which log it (docs/keras.md).",
    )
    trace_numerics: bool = option(
        False,
        "Name the operation that made the first NaN or infinity of a program.",
        "Looks at the results of each run; if they are not finite, runs the program once more with "
        "checks of its operations, and logs what it finds (docs/nonfinite.md).",
    )
    trace_underflow: bool = option(
        False,
        "Name the first gradient with float16 values that are 0 although they should not be.",
        "Runs each program once more after each run, with each of its float16 gradients computed "
        "in a wider type, too: slow. Turns `trace_numerics` on.",
    )
    isolate_custom_ops: bool = option(
        False,
        "Run each op of `precompiled_user_op` in a process of its own.",
        "A crash of its code is an error with the name of the op; calls are slower.",
    )


class IoTiles(Category):
    """Tiles set aside for input and output beside the computation."""

    num_io_tiles: int = option(
        0,
        "Number of tiles of each IPU set aside; 0 sets none aside.",
        "Plans use this many tiles fewer. Transfers from and to the host and streaming memory run "
        "beside the computation; a step takes the longer of the two.",
    )
    place_ops_on_io_tiles: bool = option(
        False,
        "Place the operations of input and output on these tiles. Transfers use them in any case.",
    )
    available_memory_proportion: float = option(
        0.9,
        "Share of the memory of these tiles that may hold data.",
        "If two buffers of a step's inputs and outputs are larger, its transfers do not overlap, "
        "and a note of the report says so.",
        needs="io_tiles.num_io_tiles",
    )


class MultiReplicaDistribution(Category):
    """One program distributed over several processes."""

    process_index: int = option(0, "Number of this process, from 0.")
    process_count: int = option(0, "Number of processes; 0 means that there is only this one.")


class Experimental(Category):
    """Options that may change or go."""

    always_rearrange_copies_on_the_host: bool = option(
        False, "Change the layout of streamed data on the host, not on the device."
    )
    enable_remote_buffer_embedding: bool = option(
        False, "Keep host embeddings in streaming memory."
    )
    enable_prng_stability: bool = option(
        False, "Keep the random generators of the replicas in step."
    )
    multi_replica_distribution: MultiReplicaDistribution
