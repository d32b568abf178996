"""The enumerations that options take. The numbers are what `to_dict` writes."""

from __future__ import annotations

from enum import Enum


class SelectionOrder(Enum):
    """The order in which the IPUs of a device are numbered.

    AUTO lets the system choose, ZIGZAG follows the physical numbers, SNAKE keeps neighbours
    linked, HOOF also links the last IPU to the first.
    """

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class ExecutionProfileType(Enum):
    """How much detail an execution profile has."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class DeviceConnectionType(Enum):
    """When a process attaches to its IPUs.

    ALWAYS attaches when the system is configured, ON_DEMAND at the first execution, NEVER and
    PRE_COMPILE only compile.
    """

    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2
    PRE_COMPILE = 3


class MergeRemoteBuffersBehaviour(Enum):
    """Whether buffers of the same shape in streaming memory are merged."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(Enum):
    """How the operations of a program are ordered."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class StochasticRoundingBehaviour(Enum):
    """Whether float16 results are rounded stochastically.

    REPLICA_IDENTICAL_ONLY does so only for values that are the same on every replica.
    """

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @staticmethod
    def from_bool(value: bool) -> StochasticRoundingBehaviour:
        """Returns ON for True and OFF for False.

        Raises:
            TypeError: `value` is not a bool.
        """
        if type(value) is not bool:
            raise TypeError(
                "StochasticRoundingBehaviour.from_bool takes True or False. "
                f"Received: {value!r} of type {type(value).__name__}."
            )
        return StochasticRoundingBehaviour.ON if value else StochasticRoundingBehaviour.OFF
