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
        "Compute activations again in the backward pass instead of keeping them.",
        "The stages of pipelines, but the last, keep their inputs alone, and pay for their forward "
        "pass once more.",
    )
    selection_order: SelectionOrder = option(
        SelectionOrder.AUTO, "The order in which the IPUs of a device are numbered."
    )
    serialization_output_folder: str = option("", "Folder to which executables are written.")
    compilation_poplar_options: dict = option({}, "Options of the graph compiler.")
    gcl_poplar_options: dict = option({}, "Options of the collectives between IPUs.")
    auto_select_ipus: int | list[int] | tuple[int, ...] = option(
        [],
        "Number of IPUs of each TensorFlow device; a number makes one device. "
        "Not together with `select_ipus`.",
        "Makes the devices /device:IPU:0, /device:IPU:1, ... with that many IPUs each.",
    )
    select_ipus: int | list[int] | tuple[int, ...] = option(
        [],
        "Id of the IPU, or group of IPUs, of each TensorFlow device.",
        "Makes one device per id, with as many IPUs as the id stands for.",
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
