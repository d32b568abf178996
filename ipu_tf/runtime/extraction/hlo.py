"""Extracts the HLO of a function that was just traced, without tracing it again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.hlo import Computation, Instruction, Module, Parameter, from_proto
from ipu_tf.compiler.lowering import embedding
from ipu_tf.compiler.passes.loops.trip_counts import GRADIENT_OF
from ipu_tf.internals.graphs import is_eager, variable_spec
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph, HloModuleProto, eager_context, eager_mode
from ipu_tf.programs.op_names import LayerScopes
from ipu_tf.runtime.extraction import (
    dynamic_shapes,
    embedded_programs,
    hlo_region,
    hlo_stand_ins,
    hlo_stock,
    loop_bounds,
)
from ipu_tf.runtime.extraction.hlo_parameters import (
    FirstRead,
    VariableRoles,
    input_parameter,
    variable_parameters,
)
from ipu_tf.runtime.extraction.hlo_region import TracedRegion
from ipu_tf.runtime.extraction.loop_bounds import TracedLoop
from ipu_tf.runtime.extraction.uncompilable import RefusedOp, UncompilableProgram
from ipu_tf.runtime.tracing import static_shapes

_STAGE = "hlo_serialized"
_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_NODE = re.compile(r"\{\{node ([^}\s]+)\}\}")
_NO_KERNEL = re.compile(r"(\w+) \(No registered '\w+' OpKernel[^)]*\)?[^{]*\{\{node ([^}]+)\}\}")
_NO_CONSTANT = re.compile(r"Input \d+ to node `([^`]+)` with op (\w+) must be a compile-time")
_NOISE = re.compile(
    r"\n\s*(?:The op is created at|Stack trace for op definition|tf2xla conversion)"
)
# XLA's error for a stack whose size comes from outside of the function that makes it.
_NO_LIST_SIZE = "requires a fixed tensor list size"
# The handle of a variable is captured under the name of the op that reads it.
_READ = re.compile(r"(/ReadVariableOp(_\d+)?)?(/resource)?$")
# TensorFlow and XLA number functions; a program's name must be the same in every process.
_NUMBERS = re.compile(r"(_\d+)?(_rewritten|_grad_\d+)?_stock_.*$")
# The function of a loop's gradient has the name of the loop's body as a prefix.
_GRADIENT_BODY = re.compile(rf"(.*)_grad_\d+(_rewritten)*{hlo_stock.NUMBERS}")
_REWRITTEN = re.compile(rf"(_rewritten)*{hlo_stock.NUMBERS}")
_ENTRY = "main"
_OPCODES = {
    hlo_stock.HOST_CALL: "host-call",
    hlo_stock.INFEED: "infeed",
    hlo_stock.OUTFEED: "outfeed",
}


def extract(
    graph: FuncGraph,
    operations: Iterable[tf.Operation],
    outputs: TensorStructure,
    *,
    name: str = "program",
    variables: VariableRoles | None = None,
    arguments: Mapping[str, tf.Tensor] | None = None,
    layers: LayerScopes | None = None,
    states: Sequence[tuple[tf.Tensor, tf.Tensor]] = (),
) -> Module:
    """Returns the HLO of the ops that a trace has created.

    It may be called while an outer function is still being traced, and neither reads nor copies
    the values of variables. It must be called before ops are fused (`runtime.fusion`).

    Args:
        graph: The graph in which the function was traced.
        operations: The ops that the trace created, in order.
        outputs: The results of the function, a structure.
        name: Name of the program.
        variables: The roles of its variables; by default all are states.
        arguments: Maps the names of the program's inputs to tensors.
        layers: Maps name scopes to layers.
        states: Inputs that stay on the device from run to run, each with the result that is its
            value in the next run.

    Raises:
        UncompilableProgram: XLA has no HLO for the function.
        ValueError: An argument has no static shape.
    """
    scopes = layers or LayerScopes()
    region = hlo_region.cut(graph, operations, outputs)
    region = _with_state_inputs(region, states)
    proto = _hlo(region, name, scopes)
    names = {id(tensor): label for label, tensor in (arguments or {}).items()}
    captures = hlo_region.Captures()
    parameters = [
        input_parameter(tensor, names, captured=captures.source(tensor) is not None)
        for tensor in region.inputs
    ]
    parameters += variable_parameters(_places(region, scopes), variables or VariableRoles())
    module = _with_origins(from_proto(proto), name, parameters, scopes)
    return _with_states(module, region, {id(tensor): result for tensor, result in states})


def _with_state_inputs(
    region: TracedRegion, states: Sequence[tuple[tf.Tensor, tf.Tensor]]
) -> TracedRegion:
    """Returns a region with its states as inputs, even if its own ops do not read them."""
    input_ids = {id(tensor) for tensor in region.inputs}
    results = {id(tensor) for tensor in region.outputs}
    inputs = [
        tensor for tensor, after in states if id(after) in results and id(tensor) not in input_ids
    ]
    return dataclasses.replace(region, inputs=(*region.inputs, *inputs))


def _with_states(module: Module, region: TracedRegion, results: Mapping[int, tf.Tensor]) -> Module:
    """Returns a module whose inputs with `results` are states, or constants if unchanged."""
    numbers = {id(tensor): number for number, tensor in enumerate(region.outputs)}
    parameters = list(module.parameters)
    for index, tensor in enumerate(region.inputs):
        if id(tensor) not in results:
            continue
        number = None if results[id(tensor)] is tensor else numbers.get(id(results[id(tensor)]))
        parameters[index] = dataclasses.replace(
            parameters[index], role="constant" if number is None else "state", updated_by=number
        )
    return dataclasses.replace(module, parameters=tuple(parameters))


def _places(region: TracedRegion, scopes: LayerScopes) -> list[FirstRead]:
    reads: dict[int, str] = {}
    for op in region.operations:
        if op.type == "ReadVariableOp":
            reads.setdefault(id(op.inputs[0]), op.name)
    # In the body of a loop, the name of the handle lacks the loop.
    names = [reads.get(id(tensor), tensor.op.name) for tensor in region.variables]
    readers = [_READ.sub("", name) for name in names]
    return [
        FirstRead(handle=handle, op_name=name, layer=scopes.layer_or_scope(name))
        for name, handle in zip(readers, region.handles, strict=True)
    ]


def _hlo(region: TracedRegion, name: str, scopes: LayerScopes) -> Any:
    """Returns the HloModuleProto of a region."""
    for tensor in region.inputs:
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"'{tensor.name}', which '{name}' reads, has shape {tensor.shape} which is not "
                f"fully defined. {static_shapes.advice(tensor.shape)}"
            )
    function = hlo_region.function_def(region, re.sub(r"\W", "_", name))
    proto, unbounded = _read(region, function, {}, name, scopes)
    dynamic = dynamic_shapes.dynamic_ops(proto)
    # Optimizers add up the rows of sparse gradients that occur more than once. The number of
    # remaining rows depends on data; the cost is that of the bound that XLA knows.
    by_user = {op: kind for op, kind in dynamic.items() if not scopes.updates_weights(op)}
    if by_user:
        raise UncompilableProgram.by_dynamic_shapes(name, _ops(by_user, scopes))
    if not unbounded:
        return proto
    bounds = loop_bounds.trip_bounds(from_proto(proto), hlo_stock.NUMBERS)
    loop_names = sorted({loop.op_name for loop in unbounded if loop.body not in bounds})
    if loop_names:
        raise UncompilableProgram.by_loops(name, [_loop(loop, scopes) for loop in loop_names])
    proto, _ = _read(region, function, bounds, name, scopes)
    return proto


def _read(
    region: TracedRegion, function: Any, bounds: Mapping[str, int], name: str, scopes: LayerScopes
) -> tuple[Any, set[TracedLoop]]:
    """Returns the HloModuleProto of a region, and the loops without a bound that they need.

    Args:
        region: The region.
        function: Its FunctionDef.
        bounds: Maximum trip counts of loops, by the names of their bodies.
        name: Name of the program, for errors.
        scopes: Maps name scopes to layers.
    """
    context = eager_context()
    functions = hlo_stock.StockFunctions(context.get_function_def, bounds)
    host = [hlo_region.host_name(index) for index in range(len(region.host))]
    try:
        entry = functions.convert(function, host)
    except hlo_stock.UnknownShape as error:
        raise UncompilableProgram(name, (), str(error)) from error
    with _registration(context, functions.functions):
        try:
            serialized = context.get_compiler_ir(
                device_name=_DEVICE,
                platform_name=None,
                function_name=entry.signature.name,
                flat_args=[tf.TensorSpec(t.shape, t.dtype) for t in region.inputs],
                captured_inputs=list(_with_stand_ins(region.handles)),
                stage=_STAGE,
            )
        except (ValueError, tf.errors.OpError) as error:
            reason = _NOISE.split(str(error))[0].strip()
            refused_ops = _ops_in_message(str(error), scopes)
            # All others have a type that XLA knows.
            if refused_ops and all(op.op_type == loop_bounds.FAKE for op in refused_ops):
                raise UncompilableProgram.by_branches(name, refused_ops) from error
            if _NO_LIST_SIZE in reason:
                raise UncompilableProgram.by_loops(name, refused_ops) from error
            if _NO_KERNEL.search(reason):
                raise UncompilableProgram.by_missing_kernels(name, refused_ops) from error
            if _NO_CONSTANT.search(reason):
                raise UncompilableProgram.by_arguments(name, refused_ops) from error
            raise UncompilableProgram.by_xla(name, refused_ops, reason) from error
    return HloModuleProto.FromString(serialized), functions.unbounded


def _loop(name: str, scopes: LayerScopes) -> RefusedOp:
    return RefusedOp(op_type="While", op_name=name, layer=scopes.layer_or_scope(name))


@contextlib.contextmanager
def _registration(context: Any, functions: Sequence[Any]) -> Iterator[None]:
    """Registers functions with TensorFlow while XLA reads them."""
    names = []
    try:
        for function in functions:
            context.add_function_def(function)
            names.append(function.signature.name)
        yield
    finally:
        for name in names:
            context.remove_function(name)


def _with_stand_ins(handles: Sequence[tf.Tensor]) -> Iterator[tf.Tensor]:
    """Yields the handles, with stand-ins for variables without a value and those of sessions.

    XLA needs the shape of a variable's value. A stand-in's memory is never touched, and is freed
    with its handle.
    """
    with eager_mode():
        for handle in handles:
            if is_eager(handle) and tf.raw_ops.VarIsInitializedOp(resource=handle):
                yield handle
                continue
            spec = variable_spec(handle)
            value = tf.raw_ops.Empty(shape=spec.shape, dtype=spec.dtype)
            yield tf.Variable(value, trainable=False).handle


def _ops_in_message(message: str, scopes: LayerScopes) -> list[RefusedOp]:
    """Returns the ops that an error message of XLA names."""
    reasons = {match[2]: match[1] for match in _NO_KERNEL.finditer(message)}
    reasons = reasons or {match[1]: match[2] for match in _NO_CONSTANT.finditer(message)}
    return _ops(reasons or dict.fromkeys(_NODE.findall(message)[:1], ""), scopes)


def _ops(types: Mapping[str, str], scopes: LayerScopes) -> list[RefusedOp]:
    """Returns ops with their layers, from op types by name.

    XLA may put the op's names in the functions it was inlined from before its own name.
    """
    names = {name: name.rpartition(";")[2] for name in types}
    return [
        RefusedOp(op_type=types[name], op_name=own, layer=scopes.layer_or_scope(own))
        for name, own in names.items()
    ]


def _with_origins(
    module: Module, name: str, parameters: Sequence[Parameter], scopes: LayerScopes
) -> Module:
    """Returns a module with the parts that XLA does not know: parameters, layers, host ops."""
    pairs = zip(parameters, module.parameters, strict=True)
    described = tuple(dataclasses.replace(p, updated_by=raw.updated_by) for p, raw in pairs)
    layers: dict[str, str] = {}
    names = _computation_names(module)
    forwards = _forward_bodies(module)

    def complete(instruction: Instruction) -> Instruction:
        changes = hlo_stand_ins.changes(instruction)
        # XLA may put the op's names in the functions it was inlined from before its own name.
        op_name = changes.get("op_name", instruction.op_name).rpartition(";")[2]
        if op_name not in layers:
            layers[op_name] = scopes.layer_or_scope(op_name)
        if layers[op_name]:
            changes["layer"] = layers[op_name]
        if op_name != instruction.op_name:
            changes["op_name"] = op_name
        target = instruction.attributes.get("custom_call_target")
        if target == hlo_stock.COLLECTIVE:
            opcode, size = instruction.attributes["backend_config"].split()
            groups = (tuple(range(int(size))),)
            changes |= {"opcode": opcode, "attributes": {"replica_groups": groups}}
        if target == embedding.TARGET:
            program = embedded_programs.of_key(instruction.attributes["backend_config"])
            changes["attributes"] = {"custom_call_target": target, "program": program}
        if target in _OPCODES:
            changes |= {
                "opcode": _OPCODES[target],
                "op_type": instruction.attributes["backend_config"],
                "attributes": {},
            }
        if instruction.computations:
            changes["computations"] = tuple(names[callee] for callee in instruction.computations)
            forward = forwards.get(instruction.computations[0])
            if forward is not None:
                changes["attributes"] = {**instruction.attributes, GRADIENT_OF: names[forward]}
        return instruction.replace(**changes) if changes else instruction

    computations = {
        names[key]: Computation(
            name=names[key], instructions=tuple([complete(i) for i in c]), root=c.root
        )
        for key, c in module.computations.items()
    }
    entry = names[module.entry]
    return Module(name=name, computations=computations, entry=entry, parameters=described)


def _computation_names(module: Module) -> dict[str, str]:
    """Returns names for a module's computations that do not depend on earlier modules."""
    names: dict[str, str] = {}
    used_names: set[str] = set()
    for name in module.computations:
        plain = _ENTRY if name == module.entry else hlo_stand_ins.plain_name(_NUMBERS.sub("", name))
        numbered_names = (f"{plain}.{count}" for count in itertools.count(1))
        names[name] = next(
            n for n in itertools.chain([plain], numbered_names) if n not in used_names
        )
        used_names.add(names[name])
    return names


def _forward_bodies(module: Module) -> dict[str, str]:
    """Maps the bodies of loops' gradients to the loops' bodies, after which they are named."""
    bodies = {
        instruction.computations[0]
        for computation in module.computations.values()
        for instruction in computation
        if instruction.opcode == "while"
    }
    by_function = {_REWRITTEN.sub("", body): body for body in sorted(bodies)}
    gradients = {body: _GRADIENT_BODY.match(body) for body in bodies}
    return {
        body: by_function[match[1]]
        for body, match in gradients.items()
        if match is not None and match[1] in by_function
    }
