"""Options that say which machine is simulated and how a process reaches it."""

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
        "When the process attaches to the IPUs.",
    )
    version: str = option(
        "",
        'IPU generation to compile for without a device: "ipu1", "ipu2" or "ipu21". '
        "Needed when the connection type is NEVER or PRE_COMPILE.",
        "Selects the simulated generation, as `ipu_model.version` does.",
    )
    enable_remote_buffers: bool = option(
        False,
        "Promises that the device has streaming memory, for programs compiled without one.",
    )


class IpuModel(Category):
    """The software model of an IPU."""

    compile_ipu_code: bool = option(
        True, "Compile the vertices for the IPU, so that their code size is known."
    )
    tiles_per_ipu: int = option(
        0,
        "Number of tiles of each IPU; 0 takes all tiles of the chip.",
        "Makes a smaller machine: plans use that many tiles.",
    )
    version: str = option(
        "ipu2",
        'IPU generation of the model: "ipu1" or "ipu2".',
        'When set, selects the generation: "ipu1" is gc2, "ipu2" is bow or gc200, "ipu21" is c600.',
    )


class Simulator(Category):
    """What is simulated. This category is the project's own."""

    chip: str | Target | System = option(
        "bow",
        'The chip: "gc2", "gc200", "bow" or "c600"; or an `ipu_tf.machine.Target` or `System` of '
        "one's own.",
        "Selects the chip: its tiles, memory and clock; and with a system its links and its host.",
    )
    numerics: str = option(
        "tiles",
        'How matmuls and convolutions are computed: "tiles" as their plans split them over the '
        'tiles, "native" with TensorFlow\'s own kernels.',
        "Selects the kernels.",
    )
    out_of_memory: str = option(
        "raise",
        'What happens when a program does not fit into tile memory: "raise" an error, or "warn" '
        "and run it.",
        "Applies to the plan of every operation and to the program as a whole.",
    )
    unsupported: str = option(
        "raise",
        'What happens when an operation of a program has no cost on the machine: "raise" an '
        'error, or "warn", run the program and mark its report as incomplete.',
        "Applies to the operations of every program.",
    )


class IoTiles(Category):
    """Tiles set aside for input and output beside the computation."""

    num_io_tiles: int = option(
        0,
        "Number of tiles of each IPU set aside; 0 sets none aside.",
        "Plans use that many tiles less. Input and output themselves cost the same: that they run "
        "beside the computation is not modelled.",
    )
    place_ops_on_io_tiles: bool = option(
        False, "Place the operations of input and output on these tiles."
    )
    available_memory_proportion: float = option(
        0.9, "Share of the memory of these tiles that may hold data."
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
