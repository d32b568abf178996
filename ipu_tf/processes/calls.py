"""What a process says about a collective that it calls, and how that of another one differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

_FIELDS = {
    "name": "are at different collectives",
    "kind": "call different collectives",
    "reduction": "reduce values differently",
    "dtype": "have values of different types",
    "shape": "have values of different shapes",
    "program": "run different programs",
    "order": "have called it a different number of times",
    "replicas": "join different replicas",
}
"""What two calls that differ in a field are told."""


class CollectiveError(RuntimeError):
    """The processes of a job did not meet at a collective."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """A collective as one process calls it.

    Attributes:
        kind: What it computes, such as "all-reduce".
        name: The place in the script or program.
        dtype: The type of the values.
        shape: The shape of a replica's value.
        reduction: How values are reduced, "" where they are not.
        program: A fingerprint of the program.
        order: How many collectives of the same processes came before.
        replicas: The replicas that take part.
    """

    kind: str
    name: str
    dtype: str = ""
    shape: str = ""
    reduction: str = ""
    program: str = ""
    order: int = 0
    replicas: str = ""

    def __str__(self) -> str:
        values = f" of {self.dtype} {self.shape}".rstrip() if self.dtype else ""
        reduction = f" ({self.reduction})" if self.reduction else ""
        program = f" in program {self.program}" if self.program else ""
        return f"{self.kind}{reduction} '{self.name}'{values}{program}, call {self.order}"

    def packed(self) -> bytes:
        """Returns the call as bytes for another process."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, message: bytes) -> CollectiveCall:
        """Returns the call of such bytes."""
        return cls(**json.loads(message))


def check_equal(calls: Mapping[int, CollectiveCall]) -> None:
    """Checks that the calls of all processes are the same.

    Args:
        calls: The calls by the number of the process.

    Raises:
        CollectiveError: Two of them differ; the error names the first that do.
    """
    (first, own), *later_calls = sorted(calls.items())
    for other, call in later_calls:
        for field, difference in _FIELDS.items():
            if getattr(call, field) != getattr(own, field):
                raise CollectiveError(
                    f"Instances {first} and {other} {difference}: instance {first} calls {own}; "
                    f"instance {other} calls {call}. All instances have to call the same "
                    "collectives in the same order, with values of the same shape: check "
                    "conditions on the instance, and the sizes of its data."
                )
