"""Runs a traced program by XLA instead of TensorFlow's graph executor.

The executor spends about a microsecond on each operation. That is nothing beside a convolution, and
most of the time of a sampler, whose loops run thousands of small operations. Such a program becomes
one function that XLA compiles: it fuses what lies between the tile ops, and calls their kernels
directly. The tile ops give the same bits in both engines. Random operations keep the numbers of the
graph, because XLA calls TensorFlow's kernels for them (`IpuHostKernel`); only the other operations
are XLA's own, and differ by rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.config import Engine
from ipu_tf.internals.graphs import in_jitted_function
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import (
    XLA_MUST_COMPILE,
    FuncGraph,
    FunctionDef,
    eager_context,
    op_def_registry,
)
from ipu_tf.ops.kernels.twins import STOCK_OF
from ipu_tf.runtime.extraction import compositions, hlo_region, loop_bounds
from ipu_tf.runtime.extraction.function_nodes import dtypes_of, outputs_of
from ipu_tf.runtime.tracing.call_ops import AttrValue, add_call
from ipu_tf.runtime.tracing.function_copies import library_function
from ipu_tf.tile_program.device_program import DeviceProgram

MANY_OPERATIONS = 2_000
"""So many operations in loops take the executor some milliseconds a run, and XLA hardly any. They
pay for the second that XLA compiles within some hundred runs, or one run of a long chain."""

HOST_KERNEL = "IpuHostKernel"

RANDOM = frozenset(
    {
        "StatelessMultinomial", "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg",
        "StatelessRandomNormal", "StatelessRandomNormalV2",
        "StatelessRandomUniform", "StatelessRandomUniformV2",
        "StatelessRandomUniformInt", "StatelessRandomUniformIntV2",
        "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2",
        "StatelessTruncatedNormal", "StatelessTruncatedNormalV2",
    }
)  # fmt: skip
"""The random operations without state of which XLA's kernels draw other numbers."""

_PRODUCTS = frozenset(
    {"IpuMatMul", "IpuMatMulBias", "IpuBatchMatMul", "IpuBatchMatMulV3", "IpuEinsum"}
)
_serial = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRun:
    """How a program runs on the host.

    Attributes:
        outputs: The results of the program.
        by_xla: Whether XLA compiles it.
        note: A sentence for the report, "" for a program that nobody expected to run by XLA.
    """

    outputs: TensorStructure
    by_xla: bool = False
    note: str = ""


def choose(
    engine: Engine,
    graph: FuncGraph,
    operations: Sequence[tf.Operation],
    outputs: TensorStructure,
    device: DeviceProgram | None,
    *,
    jitted: bool,
) -> HostRun:
    """Returns the results of a program, computed by the engine that suits it.

    Args:
        engine: "auto" chooses XLA for many small operations in loops, and for functions with
            `jit_compile=True`; "xla" for every program that XLA can run.
        graph: The graph that is being built.
        operations: The ops that the trace created, in order; none of them joined.
        outputs: The results of the traced function, a structure.
        device: The program that was compiled for the machine.
        jitted: Whether the function has `jit_compile=True`. Its random numbers are XLA's.
    """
    if engine == "graph" or device is None or in_jitted_function(graph):
        return HostRun(outputs=outputs)
    in_loops = operations_in_loops(device)
    is_required = jitted or engine == "xla"
    if not is_required and in_loops < MANY_OPERATIONS:
        return HostRun(outputs=outputs)
    region = hlo_region.cut(graph, operations, outputs)
    try:
        results = _call(graph, region, _ForXla(xla_random=jitted, any_op=is_required))
    except _NotForXla as reason:
        note = f"the host runs it as a graph, not by XLA: {reason}" if is_required else ""
        return HostRun(outputs=outputs, note=note)
    by_tensor = {id(old): new for old, new in zip(region.outputs, results, strict=True)}
    outputs = tf.nest.map_structure(
        lambda leaf: by_tensor.get(id(leaf), leaf), outputs, expand_composites=True
    )
    note = f"the host runs it by XLA: {in_loops:,} operations in loops a run"
    return HostRun(outputs=outputs, by_xla=True, note=note)


def operations_in_loops(device: DeviceProgram) -> int:
    """Returns how many operations of a program's loops run in one run of the program."""
    steps = [step for stage in device.stages for step in stage.program.steps]
    return sum(step.repeats for step in steps if step.repeats > 1)


class _NotForXla(Exception):
    """XLA cannot run the program as the graph would; the message says why."""


class _ForXla:
    """Changes the functions of a program so that XLA runs them.

    Args:
        xla_random: Whether random numbers are XLA's own.
        any_op: Whether the program may have tile ops other than products, which gain nothing.
    """

    def __init__(self, *, xla_random: bool, any_op: bool) -> None:
        self._on_host = frozenset(compositions.COMPOSITIONS) | (
            frozenset() if xla_random else RANDOM
        )
        self._any_op = any_op

    def __call__(self, definition: Any) -> None:
        """Changes a FunctionDef.

        Raises:
            _NotForXla: XLA cannot run it.
        """
        if next(loop_bounds.unbounded_stacks(definition), None) is not None:
            raise _NotForXla("the number of iterations of a loop with a gradient is not known")
        new_names: dict[str, str] = {}
        for node in definition.node_def:
            self._check(node)
            if node.op in self._on_host:
                names = [name for name, _ in outputs_of(node)]
                _run_on_host(node)
                new = [name for name, _ in outputs_of(node)]
                new_names.update(zip(names, new, strict=True))
        rename(definition, new_names)

    def _check(self, node: Any) -> None:
        stateful = op_def_registry.get(node.op).is_stateful
        stochastic = node.attr["rounding"].s == b"stochastic" if "rounding" in node.attr else False
        if stateful or stochastic:
            raise _NotForXla(f"'{node.name}' ({node.op}) has effects beside its results")
        if node.op == loop_bounds.FAKE:
            raise _NotForXla(f"XLA has no kernel for '{node.name}' ({node.op})")
        if node.op in STOCK_OF and node.op not in _PRODUCTS and not self._any_op:
            raise _NotForXla(f"'{node.name}' ({node.op}) takes longer than XLA could save")


def _run_on_host(node: Any) -> None:
    """Makes a node of a FunctionDef one that XLA passes to TensorFlow's kernel."""
    op_def = op_def_registry.get(node.op)
    stock = type(node)(name=node.name, op=node.op)
    for key, value in node.attr.items():
        if not key.startswith("_"):
            stock.attr[key].CopyFrom(value)
    types = {"Tin": dtypes_of(node, op_def.input_arg), "Tout": dtypes_of(node, op_def.output_arg)}
    stock.input.extend(f"operand_{index}" for index in range(len(types["Tin"])))
    node.op = HOST_KERNEL
    node.attr.clear()
    for key, dtypes in types.items():
        node.attr[key].list.type.extend(dtypes)
    node.attr["node"].s = stock.SerializeToString()


def rename(definition: FunctionDef, new_names: Mapping[str, str]) -> None:
    """Gives the tensors of a FunctionDef new names."""
    for node in definition.node_def:
        for index, name in enumerate(node.input):
            node.input[index] = new_names.get(name, name)
    for result, name in definition.ret.items():
        definition.ret[result] = new_names.get(name, name)


def _call(
    graph: FuncGraph, region: hlo_region.TracedRegion, change: _ForXla
) -> Sequence[tf.Tensor]:
    """Returns the results of a region's function, called in the graph.

    The region's own ops stay behind; without readers and effects, TensorFlow drops them.
    """
    if region.variables or region.host:
        first = (*region.variables, *region.host)[0]
        raise _NotForXla(f"it uses '{first.name}', which lives outside of the program")
    serial = next(_serial)

    def by_xla(name: str) -> str:
        return f"{name}_by_xla_{serial}"

    definition = hlo_region.function_def(region, by_xla(graph.name))
    definition.attr[XLA_MUST_COMPILE].b = True
    definition.attr["_noinline"].b = True
    function = library_function(definition, eager_context().get_function_def, change, by_xla)
    call = add_call(
        graph,
        "PartitionedCall",
        function,
        region.inputs,
        region.outputs,
        name="by_xla",
        attributes={XLA_MUST_COMPILE: AttrValue(b=True)},
    )
    results: Sequence[tf.Tensor] = call.outputs
    return results
