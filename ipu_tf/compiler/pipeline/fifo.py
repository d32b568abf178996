"""FIFOs: values of earlier micro-batches that a stage keeps between its passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Instruction, Module
from ipu_tf.compiler.pipeline.assignment import Assignment
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.pipeline.residence import VIEWS
from ipu_tf.compiler.pipeline.schedule import Pass, waiting_micro_batches

_STREAMED = frozenset({"input", "host"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """Values of one instruction that wait in a stage.

    Attributes:
        value: Name of the instruction.
        depth: The most micro-batches of it that wait, besides the current one.
        value_bytes: Bytes of one of them.
        made_in: The pass that makes it.
        read_in: The pass of the stage that reads it last.
    """

    value: str
    depth: int
    value_bytes: int
    made_in: Pass
    read_in: Pass

    @property
    def bytes(self) -> int:
        """Bytes of all waiting values."""
        return self.depth * self.value_bytes


def fifos(
    module: Module, assignment: Assignment, options: Deployment, *, training: bool
) -> Mapping[int, tuple[Fifo, ...]]:
    """Returns the FIFOs of each stage.

    A stage keeps the values of the forward pass that its backward pass reads: its activations, or
    only its inputs and checkpoints if it recomputes the rest. A value that skips stages waits in
    the stage that reads it.

    Args:
        module: The step.
        assignment: Stages of its instructions.
        options: The pipeline.
        training: Whether there is a backward pass.
    """
    of_stages: dict[int, dict[str, Fifo]] = defaultdict(dict)
    by_name = module.entry_computation.by_name()
    for value, maker, reader in _waits(module, assignment):
        depth = waiting_micro_batches(
            options.schedule, stages=options.stages, training=training, maker=maker, reader=reader
        )
        fifo = of_stages[reader[0]].get(value)
        if depth > (fifo.depth if fifo else 0):
            of_stages[reader[0]][value] = Fifo(
                value=value,
                depth=depth,
                value_bytes=by_name[value].type.bytes,
                made_in=maker[1],
                read_in=reader[1],
            )
    return {stage: tuple(of_stage.values()) for stage, of_stage in of_stages.items()}


def stashed(module: Module, assignment: Assignment) -> Mapping[int, int]:
    """Returns the bytes that each stage keeps of a micro-batch from one pass to the other."""
    by_name = module.entry_computation.by_name()
    values_of_stages: dict[int, set[str]] = defaultdict(set)
    for value, maker, reader in _waits(module, assignment):
        if maker[1] == "forward" and reader[1] == "backward":
            values_of_stages[reader[0]].add(value)
    return {
        stage: sum(by_name[value].type.bytes for value in values)
        for stage, values in values_of_stages.items()
    }


def _waits(
    module: Module, assignment: Assignment
) -> Iterator[tuple[str, tuple[int, Pass], tuple[int, Pass]]]:
    """Yields each value that is read, with the stage and pass of its maker and of its reader."""
    by_name = module.entry_computation.by_name()
    for reader in module.entry_computation:
        stage = assignment.stage_of.get(reader.name)
        if stage is None or reader.phase == "update" or reader.opcode == "parameter":
            continue
        for operand in reader.operands:
            value = _source(operand, stage, by_name, assignment)
            maker = _maker(by_name[value], stage, module, assignment)
            if maker is None:
                continue
            yield value, maker, (stage, reader.phase)


def _source(
    name: str, stage: int, by_name: Mapping[str, Instruction], assignment: Assignment
) -> str:
    """Returns the stored value that a value is a view of, within a stage."""
    while by_name[name].opcode in VIEWS and assignment.stage_of.get(name) == stage:
        name = by_name[name].operands[0]
    return name


def _maker(
    value: Instruction, stage: int, module: Module, assignment: Assignment
) -> tuple[int, Pass] | None:
    """Returns the stage and pass that make a value; None for a value that is always there."""
    if value.opcode == "parameter":
        role = module.parameters[value.attributes["parameter_number"]].role
        return (stage, "forward") if role in _STREAMED else None
    own_stage = assignment.stage_of.get(value.name)
    if own_stage is None or value.phase == "update":
        return None
    return own_stage, value.phase
