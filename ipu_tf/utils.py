"""Small functions for scripts, and the names of the configuration again."""

from __future__ import annotations

import re

import numpy as np

from ipu_tf.config import (
    DeviceConnectionType,
    ExecutionProfileType,
    IPUConfig,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
    SyntheticDataCategory,
    configure_ipu_system,
    device_configuration,
    get_ipu_config,
    poplar_flags,
    reset_ipu_configuration,
    running_on_ipu_model,
)
from ipu_tf.ops.kernels import library

__all__ = [
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "SyntheticDataCategory",
    "configure_ipu_system",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "move_variable_initialization_to_cpu",
    "reset_ipu_configuration",
    "reset_ipu_seed",
    "running_on_ipu_model",
    "use_synthetic_data_for",
]

_DEVICE = re.compile(r"(?:.*/)?(?:device:)?IPU:(\d+)", re.IGNORECASE)


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Returns the number of IPUs of a TensorFlow device.

    Args:
        ipu_device: Name of the device, "/device:IPU:0" for example.
        device: The CPU device beside the IPUs; it has no effect here.

    Raises:
        ValueError: The name is not that of a configured IPU device.
    """
    return device_configuration().num_ipus[_ordinal(ipu_device)]


def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Seeds the random generators of stochastic rounding.

    The same seed before the same program gives the same results, bit for bit. TensorFlow's own
    random operations have their own seed (`tf.random.set_seed`).

    Args:
        seed: Any whole number from -2**63 to 2**64 - 1.
        device: Name of the IPU device. All devices share one seed.
        cpu_device: The CPU device beside the IPUs; it has no effect here.
        experimental_identical_replicas: Whether all replicas of a program draw the same bits. The
            replicas of Keras models take turns at one generator in any case.

    Raises:
        TypeError: `seed` is not a whole number.
        ValueError: `seed` is out of range, or `device` is not a configured IPU device.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(
            f"The seed must be a whole number. Received: {seed!r} of type {type(seed).__name__}."
        )
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"The seed must fit into 64 bits. Received: {seed!r}.")
    _ordinal(device)
    library.reset_seed(int(seed), bool(experimental_identical_replicas))


def use_synthetic_data_for(synthetic_data_category: SyntheticDataCategory | str) -> bool:
    """Returns whether TF_POPLAR_FLAGS requests synthetic data of a category on the device.

    Feeds outside of Keras follow the categories infeed and outfeed; all else has its real data.

    Args:
        synthetic_data_category: A category or its name, "infeed" for example.

    Raises:
        ValueError: There is no such category, or the flags are invalid.
    """
    category = synthetic_data_category
    if isinstance(category, str):
        known = {member.value: member for member in SyntheticDataCategory}
        category = known.get(category.lower(), category)
    if not isinstance(category, SyntheticDataCategory):
        names = ", ".join(member.value for member in SyntheticDataCategory)
        raise ValueError(
            f"The synthetic data category must be one of {names}. "
            f"Received: {synthetic_data_category!r}."
        )
    flags = poplar_flags()
    return flags.use_synthetic_data or category in flags.synthetic_data_categories


def move_variable_initialization_to_cpu(graph: object = None) -> None:
    """Does nothing: variables are always initialised on the host.

    Args:
        graph: Unused; scripts pass the graph that holds the variables.
    """


def _ordinal(ipu_device: str) -> int:
    """Returns the number of a configured IPU device.

    Raises:
        ValueError: There is no such device.
    """
    devices = len(device_configuration().num_ipus)
    match = _DEVICE.fullmatch(ipu_device) if isinstance(ipu_device, str) else None
    if match is None or int(match[1]) >= devices:
        raise ValueError(
            f"No IPU device has this name: the configured ones are /device:IPU:0 to "
            f"/device:IPU:{devices - 1}. Received: {ipu_device!r}."
        )
    return int(match[1])
