"""The configuration of the simulated IPU system: `IPUConfig` and how it is installed."""

from ipu_tf.config.category import UnknownOptionError
from ipu_tf.config.declaration import deprecate_config_attribute, deprecate_config_attributes
from ipu_tf.config.device import DeviceConfiguration, Engine, PlannerOptions
from ipu_tf.config.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu_tf.config.flags import (
    PoplarFlags,
    SyntheticDataCategory,
    poplar_flags,
    running_on_ipu_model,
)
from ipu_tf.config.ipu_config import IPUConfig
from ipu_tf.config.metadata import AttributeMetadata
from ipu_tf.config.system_configuration import (
    borrowed_device,
    configure_ipu_system,
    device_configuration,
    engine_options,
    get_ipu_config,
    is_configured,
    on_reset,
    reset_ipu_configuration,
)

__all__ = [
    "AttributeMetadata",
    "DeviceConfiguration",
    "DeviceConnectionType",
    "Engine",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "PlannerOptions",
    "PoplarFlags",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "SyntheticDataCategory",
    "UnknownOptionError",
    "borrowed_device",
    "configure_ipu_system",
    "deprecate_config_attribute",
    "deprecate_config_attributes",
    "device_configuration",
    "engine_options",
    "get_ipu_config",
    "is_configured",
    "on_reset",
    "poplar_flags",
    "reset_ipu_configuration",
    "running_on_ipu_model",
]
