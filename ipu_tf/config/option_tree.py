"""The tree of all options."""

from __future__ import annotations

from ipu_tf.config.category import Category
from ipu_tf.config.declaration import option
from ipu_tf.config.enums import SelectionOrder
from ipu_tf.config.options_compiler import Optimizations, Scheduling
from ipu_tf.config.options_device import (
    DeviceConnection,
    Experimental,
    IoTiles,
    IpuModel,
    Simulator,
)
from ipu_tf.config.options_numerics import (
    Convolutions,
    FloatingPointBehaviour,
    Matmuls,
    Norms,
    Pooling,
    Slices,
)


class OptionTree(Category):
    """All options of the simulated IPU system; `IPUConfig` is one that can be installed."""

    allow_recompute: bool = option(
        False,
        "Recompute activations in the backward pass instead of storing them.",
        "A program on one IPU stores activations only at its checkpoints "
        "(`RecomputationCheckpoint`; without any, the compiler places them). Pipeline stages "
        "except the last store only their inputs and checkpoints.",
    )
    selection_order: SelectionOrder = option(
        SelectionOrder.AUTO, "The order in which the IPUs of a device are numbered."
    )
    serialization_output_folder: str = option("", "Folder for compiled executables.")
    compilation_poplar_options: dict = option(
        {},
        "Options of the graph compiler.",
        "`autoReport.*` ask for reports, as in `POPLAR_ENGINE_OPTIONS`; other keys are stored "
        "without effect.",
    )
    gcl_poplar_options: dict = option({}, "Options of the collectives between IPUs.")
    auto_select_ipus: int | list[int] | tuple[int, ...] = option(
        [],
        "Number of IPUs of each TensorFlow device; a single number makes one device. "
        "Excludes `select_ipus`.",
        "Makes the devices /device:IPU:0, /device:IPU:1, ... with these numbers of IPUs.",
    )
    select_ipus: int | list[int] | tuple[int, ...] = option(
        [],
        "Id of the IPU, or group of IPUs, of each TensorFlow device.",
        "Makes one device per id, with the IPU or the group of IPUs that the id names.",
    )
    convolutions: Convolutions
    device_connection: DeviceConnection
    slices: Slices
    experimental: Experimental
    floating_point_behaviour: FloatingPointBehaviour
    io_tiles: IoTiles
    ipu_model: IpuModel
    matmuls: Matmuls
    norms: Norms
    optimizations: Optimizations
    pooling: Pooling
    scheduling: Scheduling
    simulator: Simulator
