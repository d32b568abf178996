"""What TensorFlow keeps private of graphs, their operations, functions and loops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import tensorflow as tf

# A changed copy of a function has types of its own.
from tensorflow.core.function.polymorphism import function_type as function_type_lib

# Leaves a strategy's scope inside of it; see `without_strategy`.
from tensorflow.python.distribute import distribute_lib

# A changed copy of a function is made from its proto.
from tensorflow.python.eager.polymorphic_function.atomic_function import (
    from_function_def as atomic_function_from_function_def,
)
from ipu_tf.internals.structures import SpecStructure, TensorStructure

# The error of an initial value that cannot leave its function has no public name.
from tensorflow.python.ops.op_selector import UnliftableError as UnliftableError

# Branches and loops know their graphs and the contexts in which they were built.
from tensorflow.python.ops import cond_v2, control_flow_util, variable_scope
from tensorflow.python.ops.control_flow_v2_func_graphs import (
    ControlFlowFuncGraph,
    WhileBodyFuncGraph,
)

from ipu_tf.internals.tensorflow import (
    FunctionDef,
    XLA_MUST_COMPILE,
    ConcreteFunction,
    EagerTensor,
    FuncGraph,
    OpDef,
    get_resource_handle_data,
    op_def_registry,
    tracing_compilation,
)


def create_op(
    graph: FuncGraph, op_type: str, inputs: Sequence[tf.Tensor], **kwargs: object
) -> tf.Operation:
    """Returns a new op of a graph, of any type and with just these attributes.

    The public `tf.raw_ops` take Python values, infer attributes and have none of one's own choice.
    Relies on `FuncGraph._create_op_internal`, so that a tracer sees the op.

    Args:
        graph: The graph.
        op_type: Type of the op.
        inputs: The tensors that it reads.
        kwargs: `dtypes`, `name` and `attrs`, of `FuncGraph._create_op_internal`.
    """
    return graph._create_op_internal(op_type, inputs, **kwargs)


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Makes an op read another tensor.

    Finished ops cannot be changed publicly. Relies on `Operation._update_input`.
    """
    op._update_input(index, tensor)


@contextlib.contextmanager
def taking_ops(graph: tf.Graph) -> Iterator[None]:
    """Lets a graph take ops, also if it is final; then it is final again afterwards.

    Relies on `Graph._unsafe_unfinalize`. TensorFlow calls it unsafe while a session runs the graph
    on another thread.
    """
    is_final = graph.finalized
    if is_final:
        graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if is_final:
            graph.finalize()


def set_op_attribute(op: tf.Operation, name: str, value: tf.compat.v1.AttrValue) -> None:
    """Sets an attribute of an op that exists.

    Finished ops cannot be changed publicly. Relies on `Operation._set_attr`.

    Args:
        op: The op.
        name: Name of the attribute; one that begins with an underscore suits every op.
        value: A `tf.compat.v1.AttrValue`.
    """
    op._set_attr(name, value)


def has_effects(operation: tf.Operation) -> bool:
    """Returns whether an operation is stateful, as TensorFlow's own order of operations sees it.

    Relies on `Operation._is_stateful`; the public definition of an op lacks the effects of calls.
    """
    return bool(operation._is_stateful)


def op_def_of(op: tf.Operation) -> OpDef:
    """Returns the definition of the type of an op.

    `Operation.op_def` reads it anew each time. Relies on `op_def_registry`, which does not know
    the types that graphs define: functions.
    """
    return op_def_registry.get(op.type) or op.op_def


def leave_unordered(graph: tf.Graph) -> None:
    """Keeps TensorFlow from ordering the ops of a graph at the end of its trace: it never runs.

    Nothing public does it for one graph but not for the branches and loops in it. Relies on
    `Graph.experimental_acd_manager`, and on `AutomaticControlDependencies._n_operations`: how many
    ops are not looked at.
    """
    manager = graph.experimental_acd_manager
    if manager is not None:
        manager._n_operations = graph.num_operations()


def device_of_new_ops() -> str:
    """Returns the name of the device that the graph being built gives to new ops, "" for none.

    Only an op has it.
    """
    op = tf.no_op(name="device_of_new_ops")
    device = str(op.device)
    clear_device(op)
    return device


def clear_device(op: tf.Operation) -> None:
    """Leaves an op without a device: a session refuses devices that it does not have.

    Relies on `Operation._set_device`; there is no public way.
    """
    op._set_device("")


def is_ipu(device: str) -> bool:
    """Returns whether the name of a device is that of an IPU."""
    return "IPU:" in device.upper()


def forget_variables(variables: Sequence[tf.Variable]) -> None:
    """Makes `get_variable` in the present graph call creators again for variables that exist.

    Relies on `_VariableStore._vars`, which is what `get_variable` knows; publicly a name is either
    new or reused, and one that is reused has to come with the type of its variable.
    """
    variables_by_name = variable_scope._get_default_variable_store()._vars
    ids = {id(variable) for variable in variables}
    for name in [name for name, variable in variables_by_name.items() if id(variable) in ids]:
        del variables_by_name[name]


def is_eager(tensor: object) -> bool:
    """Returns whether a tensor has a value, whatever the mode; those of graphs have none.

    Relies on `EagerTensor`, as `tf.is_symbolic_tensor` is about Keras and functions.
    """
    return isinstance(tensor, EagerTensor)


def variable_spec(handle: tf.Tensor) -> tf.TensorSpec:
    """Returns shape and type of a variable that may have no value, from its handle.

    The handle is all that a captured variable leaves. Relies on `EagerTensor._handle_data`; a
    handle of a session's graph has it in the graph.
    """
    resource_data = handle._handle_data if is_eager(handle) else get_resource_handle_data(handle)
    handle_data = resource_data.shape_and_type[0]
    return tf.TensorSpec(tf.TensorShape(handle_data.shape), tf.as_dtype(handle_data.dtype))


def function_in(graph: tf.Graph, name: str) -> tf.types.experimental.AtomicFunction | None:
    """Returns the function called `name` of a graph's own library, None where it has none.

    Functions of v1 are known to the library, too. Relies on `Graph._is_function` and
    `Graph._get_function`; the public ways read the library as a proto, of all its functions.
    """
    return graph._get_function(name) if graph._is_function(name) else None


def knows_function(graph: tf.Graph, name: str | bytes) -> bool:
    """Returns whether a graph's library has a function of this name.

    Relies on `Graph._is_function`, as `function_in` does.
    """
    return bool(graph._is_function(name))


def add_function(graph: FuncGraph, function: tf.types.experimental.AtomicFunction) -> None:
    """Adds a function to a graph's library, with all that it calls.

    An op that calls it needs it there. Relies on `Graph._add_function_recursive`, as the public
    `ConcreteFunction.add_to_graph` asks for a concrete function.
    """
    graph._add_function_recursive(function)


def atomic_function_from_def(
    definition: FunctionDef,
    function_type: tf.types.experimental.FunctionType,
    children: Sequence[tf.types.experimental.AtomicFunction],
) -> tf.types.experimental.AtomicFunction:
    """Returns a function of TensorFlow's library from its proto, which is registered.

    Changed copies of a function are made of its proto. Relies on
    `atomic_function.from_function_def` and on `AtomicFunction.children`, which a graph that calls
    the function needs, too.

    Args:
        definition: A FunctionDef of a new name.
        function_type: The types of its arguments and results.
        children: The functions that it calls.
    """
    function = atomic_function_from_function_def(definition, function_type)
    function._children = [
        grandchild for child in children for grandchild in (child, *child.children)
    ]
    return function


def function_type_of(definition: FunctionDef) -> tf.types.experimental.FunctionType:
    """Returns the types of the arguments and results of a FunctionDef, without their shapes.

    Meta graphs are written by these types. Relies on `function_type.from_structured_signature`.
    """
    signature = definition.signature
    arguments, results = (
        tuple(tf.TensorSpec(None, tf.as_dtype(one.type)) for one in ends)
        for ends in (signature.input_arg, signature.output_arg)
    )
    return function_type_lib.from_structured_signature((arguments, {}), results)


def trace(
    function: Callable[..., object], args: tuple[SpecStructure, ...], *, name: str = "function"
) -> ConcreteFunction:
    """Returns a function traced in the graph that is being built, for arguments of these specs.

    Variables that it creates are those of the code around it, and of the collections of a graph of
    TensorFlow 1, whereas a `tf.function` would own them. Relies on
    `tracing_compilation.trace_function`, as `tf.function` does.

    Args:
        function: A Python function; it is not converted by AutoGraph.
        args: Structures of `tf.TensorSpec`.
        name: Name of the traced function.
    """
    options = tracing_compilation.TracingOptions(function, name, autograph=False)
    return tracing_compilation.trace_function(args, {}, options)


def call_flat(function: ConcreteFunction, inputs: Sequence[tf.Tensor]) -> TensorStructure:
    """Calls a concrete function with its inputs in their flat order, captured ones among them.

    A public call packs and checks arguments by a signature, which the function of a copied graph
    does not have. Relies on `ConcreteFunction._call_flat`.
    """
    return function._call_flat(inputs, [])


def jit_compiles(function: object) -> bool:
    """Returns whether a tf.function or concrete function was made with `jit_compile=True`.

    Relies on the `_jit_compile` that `tf.function(jit_compile=...)` is kept in, and on the
    attribute of the functions that it traces.
    """
    if isinstance(function, ConcreteFunction):
        attribute = function.function_def.attr.get(XLA_MUST_COMPILE)
        return attribute is not None and bool(attribute.b)
    return bool(getattr(function, "_jit_compile", False))


def in_jitted_function(graph: tf.Graph) -> bool:
    """Returns whether a graph is, or lies in, that of a function with `jit_compile=True`.

    Only the context in which it is built says so. Relies on
    `control_flow_util.GraphOrParentsInXlaContext`.
    """
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def makes_calls_of_xla(graph: tf.Graph) -> bool:
    """Returns whether a graph is given the call of a function with `jit_compile=True` now.

    Only the context of the call says so. Relies on `Graph._get_control_flow_context`, as
    `in_jitted_function` does.
    """
    context = graph._get_control_flow_context()
    return context is not None and context.IsXLAContext()


def is_call_of_xla(operation: tf.Operation) -> bool:
    """Returns whether an operation calls a function with `jit_compile=True`.

    Relies on `Operation._get_control_flow_context`, the context in which the call was made.
    """
    context = operation._get_control_flow_context()
    return context is not None and context.IsXLAContext()


def loop_body(loop: tf.Operation) -> FuncGraph | None:
    """Returns the graph of a loop's body, None where the loop was read from a file.

    The op itself only has the name of the body. Relies on `while_v2`, which sets
    `Operation._body_graph`.
    """
    return getattr(loop, "_body_graph", None)


def loop_condition(loop: tf.Operation) -> FuncGraph | None:
    """Returns the graph of a loop's condition, None where the loop was read from a file.

    Relies on `while_v2`, which sets `Operation._cond_graph`.
    """
    return getattr(loop, "_cond_graph", None)


def graph_before_gradient(body: FuncGraph) -> FuncGraph | None:
    """Returns the graph of the loop whose gradient a body computes, None for other bodies.

    Relies on `_WhileBodyGradFuncGraph._forward_graph`.
    """
    return getattr(body, "_forward_graph", None)


def loop_of_body(body: FuncGraph) -> tf.Operation | None:
    """Returns the loop whose body a graph is, None before TensorFlow builds its gradient.

    Relies on `while_v2`, which then sets `FuncGraph._while`.
    """
    return getattr(body, "_while", None)


def loop_counter_of(graph: tf.Graph, counter: tf.Tensor | None = None) -> tf.Tensor | None:
    """Returns the number of the iteration in the innermost loop whose body a graph is part of.

    No public name gives it. Relies on `while_v2`, whose bodies take it as their first input, and
    on the class of their graphs.

    Args:
        graph: The graph.
        counter: The number in a graph that its loop calls as a function.
    """
    while isinstance(graph, FuncGraph):
        if counter is not None and counter.graph is graph:
            return counter
        if isinstance(graph, WhileBodyFuncGraph):
            return graph.inputs[0]
        graph = graph.outer_graph
    return None


def is_in_loop_body(graph: tf.Graph, program: tf.Graph | None = None) -> bool:
    """Returns whether a graph is the body of a loop, or a branch or function inside of one.

    Nothing public tells the graphs of loops from others. Relies on `WhileBodyFuncGraph`.

    Args:
        graph: The graph.
        program: The graph of a program whose loops count; None for loops around it, too.
    """
    while isinstance(graph, FuncGraph) and graph is not program:
        if isinstance(graph, WhileBodyFuncGraph):
            return True
        graph = graph.outer_graph
    return False


def is_in_control_flow(graph: tf.Graph, program: tf.Graph) -> bool:
    """Returns whether a graph is a branch or a part of a loop of a program, or called in one.

    Relies on `ControlFlowFuncGraph`, as `is_in_loop_body` relies on its subclass.

    Args:
        graph: The graph.
        program: The graph of the program.
    """
    while isinstance(graph, FuncGraph) and graph is not program:
        if isinstance(graph, ControlFlowFuncGraph):
            return True
        graph = graph.outer_graph
    return False


def forward_graph(gradient_graph: FuncGraph) -> FuncGraph:
    """Returns the graph of the branch whose gradient a `CondGradientGraph` holds.

    Relies on `_CondGradFuncGraph._forward_graph`.
    """
    return gradient_graph._forward_graph


def resource_input_of(handle: tf.Tensor, graph: FuncGraph) -> tf.Tensor:
    """Returns the input of a graph that a handle in it is, passed on through loops and calls.

    TensorFlow itself takes the same way for loops. Relies on `Graph._functions` and on
    `control_flow_util_v2.resource_input_index`.
    """
    inputs = [parameter.name for parameter in graph.inputs]
    nodes = {op.name: op.node_def for op in graph.get_operations()}
    index = cond_v2.util.resource_input_index(handle.name, inputs, nodes, graph._functions)
    return graph.inputs[int(index)]


def graph_of_session() -> tf.Graph | None:
    """Returns the graph of TensorFlow 1 around all functions, None in eager mode.

    Relies on `tf.init_scope`, which leaves the graphs of functions alone.
    """
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def in_graph_of_session(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a copy of a function's tensor, and of all that it is computed from, around functions.

    Relies on `lift_to_graph`, which brings the initial values of variables out of a tf.function.

    Raises:
        UnliftableError: It is computed from an input of the function.
    """
    with tf.init_scope():  # Nothing that controls the function controls the copies.
        return tf.__internal__.lift_to_graph([tensor], tf.compat.v1.get_default_graph())[tensor]


@contextlib.contextmanager
def without_strategy() -> Iterator[None]:
    """Makes the code inside, in a function of a session's graph, run as under no strategy.

    Optimizers reduce nothing over replicas, and variables are made as around the function. No
    public context leaves a scope. Relies on the stacks of `distribute_lib` and of
    `Graph._variable_creator_stack`, as the scopes do.
    """
    graph = tf.compat.v1.get_default_graph()
    creators = graph._variable_creator_stack
    graph._variable_creator_stack = cast(tf.Graph, graph_of_session())._variable_creator_stack
    distribute_lib._push_per_thread_mode(distribute_lib._get_default_replica_mode())
    try:
        yield
    finally:
        distribute_lib._pop_per_thread_mode()
        graph._variable_creator_stack = creators
