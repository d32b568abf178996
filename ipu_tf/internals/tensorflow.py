"""Every private name and attribute of TensorFlow that ipu_tf uses, each with its reason.

No other module may import from `tensorflow.python`, or use an attribute of TensorFlow's objects
that begins with an underscore; a test over the syntax tree keeps it so.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

# There is no public hook that sees an op before it is created in a function's graph.
from tensorflow.python.framework.func_graph import FuncGraph as FuncGraph

# The body of a function that was traced elsewhere has to be read back to be rewritten.
from tensorflow.python.framework.function_def_to_graph import (
    function_def_to_graph as function_def_to_graph,
)

# A rewritten body has to become a function of the library again.
from tensorflow.python.eager.polymorphic_function.atomic_function import (
    from_func_graph as atomic_function_from_func_graph,
)

# A changed copy of a function is made from its proto.
from tensorflow.python.eager.polymorphic_function.atomic_function import (
    from_function_def as atomic_function_from_function_def,
)

# A program that runs on several replicas is a function of the graph around it, traced at once; the
# public tf.function would trace it twice where it makes variables.
from tensorflow.python.framework.func_graph import (
    func_graph_from_py_func as func_graph_from_py_func,
)

# Stock gradients of ops whose tile twins have the same attributes are reused.
from tensorflow.python.framework.ops import gradient_registry as gradient_registry

# Methods decorated with tf.function hide their instance behind this class.
from tensorflow.python.eager.polymorphic_function.tf_method_target import (
    TfMethodTarget as TfMethodTarget,
)

# tf.function wraps its Python function in decorators; the cache needs the function itself.
from tensorflow.python.util.tf_decorator import unwrap as unwrap_decorators

# `tf.compat.v1` is several module objects once a package has imported `tensorflow.compat.v1`. The
# `reset_default_graph` of each of them resets the one stack of graphs.
from tensorflow.python.framework.ops import _DefaultGraphStack as DefaultGraphStack

# The files of SavedModels and checkpoints of Keras 2 tell what held their variables; TensorFlow has
# no public functions for it.
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModelFile
from tensorflow.core.protobuf.trackable_object_graph_pb2 import (
    TrackableObjectGraph as TrackableObjectGraph,
)

# All that `tf.io.gfile` does with a path goes through this module.
from tensorflow.python.lib.io import _pywrap_file_io as file_operations

# Functions that Keras calls are not converted by AutoGraph; the public tf.autograph converts a
# function for eager calls, too, and takes no bound methods.
from tensorflow.python.autograph.core.ag_ctx import ControlStatusCtx, Status
from tensorflow.python.autograph.impl.api import tf_convert

# The eager iterator of a dataset, for an infeed that refuses to be read eagerly.
from tensorflow.python.data.ops.iterator_ops import IteratorSpec as IteratorSpec
from tensorflow.python.data.ops.iterator_ops import OwnedIterator as OwnedIterator

# The public tf.distribute.Strategy has no public way to say that a replica context is of ours.
from tensorflow.python.distribute.distribute_lib import UpdateContext as UpdateContext

# Leaves a strategy's scope inside of it; see `without_strategy`.
from tensorflow.python.distribute import distribute_lib

# AutoGraph has to call `strategy.run` as it is, yet go on converting the user's function in it
# (the public `do_not_convert` would switch it off for that function, too).
from tensorflow.python.autograph.impl.api import autograph_artifact as autograph_artifact

# The shape of a variable travels with its handle; copying a graph has to copy it, too.
from tensorflow.python.ops.handle_data_util import copy_handle_data as copy_handle_data

# A concrete function that was traced before is replaced by its rewritten copy where it is called.
from tensorflow.python.eager.polymorphic_function.concrete_function import (
    ConcreteFunction as ConcreteFunction,
)

# The calls of a user's own functions that run programs are marked while a strategy is profiled.
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    Function as PolymorphicFunction,
)

# Optimizers of scripts import the operations that update variables from where they were.
from tensorflow.python import training as training_package
from tensorflow.python.ops import gen_training_ops as gen_training_ops

# Functions with `jit_compile=True` inside of replicas are not compiled on their own: the context in
# which they are built, and the attribute of their definitions.
from tensorflow.python.eager.polymorphic_function.attributes import (
    XLA_COMPILE as XLA_MUST_COMPILE,
)
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    OptionalXlaContext as OptionalXlaContext,
)

# The functions that are asked where a function of TensorFlow fails on its arguments, and the public
# names of functions.
from tensorflow.python.util import dispatch as dispatch
from tensorflow.python.util import tf_export as tf_export

# Signatures with open sizes are given the sizes of the call when a function is traced.
from tensorflow.core.function.trace_type import InternalCastContext as InternalCastContext
from tensorflow.python.eager.polymorphic_function import function_type_utils as function_type_utils
from tensorflow.python.eager.polymorphic_function import (
    tracing_compilation as tracing_compilation,
)

# Functions that layers call get the scope of the layer, as TensorFlow does with loops and branches.
from tensorflow.python.framework.func_graph import (
    override_func_graph_name_scope as override_func_graph_name_scope,
)

# Which variables of a function are trainable: where no Keras model says it, their use does.
from tensorflow.python.eager.record import VariableWatcher as VariableWatcher

# Ops must not be joined while a tape remembers them one by one.
from tensorflow.python.eager.record import could_possibly_record as is_recording

# A tape sees the calls of replicas, which are made op by op, as one operation.
from tensorflow.python.eager.record import record_operation as record_operation

# A function is given to XLA by its proto, without being traced or built once more: this registers
# it, asks for its HLO, and forgets it.
from tensorflow.python.eager.context import context as eager_context

# What XLA answers with.
from tensorflow.compiler.xla.service.hlo_pb2 import HloModuleProto as HloModuleProto
from tensorflow.core.framework.function_pb2 import FunctionDef as FunctionDef

# The file of an exported model is rewritten with stock ops in place of tile ops.
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModelProto

# A node of a FunctionDef that is made one by one.
from tensorflow.core.framework.node_def_pb2 import NodeDef as NodeDef

# Names and types of the outputs of ops in a FunctionDef.
from tensorflow.python.framework import op_def_registry as op_def_registry

# Uses of a variable have to be put in order before TensorFlow does so at the end of a trace.
from tensorflow.python.framework.auto_control_deps_utils import (
    get_read_write_resource_inputs as get_read_write_resource_inputs,
)

# Tells the handle of a variable, which has a shape and a type, from that of an iterator.
from tensorflow.python.ops.handle_data_util import (
    get_resource_handle_data as get_resource_handle_data,
)

# Classes that vectorised loops register and return; see `register_pfor_converter`.
from tensorflow.python.ops.parallel_for.pfor import _pfor_converter_registry
from tensorflow.python.ops.parallel_for.pfor import wrap as pfor_wrap

# The graphs of the bodies of loops.
from tensorflow.python.ops.control_flow_v2_func_graphs import (
    WhileBodyFuncGraph as WhileBodyFuncGraph,
)

# Which loop, branch or function of its own a function is converted in; see `converted`.
from tensorflow.python.autograph.core import ag_ctx

# A session's graph has no eager context around it, which XLA needs to be asked for HLO.
from tensorflow.python.eager.context import eager_mode as eager_mode

# Tells captured values from tensors of a session's graph.
from tensorflow.python.framework.ops import EagerTensor as EagerTensor

# The modules whose functions `patches` replaces.
from tensorflow.python.eager import context as eager_context_module
from tensorflow.python.eager.polymorphic_function import function_context as function_context
from tensorflow.python.ops import cond_v2, control_flow_util

# The class of graphs that hold the body of a loop; only its name says so.

CondGradientGraph = cond_v2._CondGradFuncGraph
"""The class of graphs that hold the gradient of a branch; only its name says so."""


def create_op(
    graph: FuncGraph, op_type: str, inputs: Sequence[tf.Tensor], **kwargs: Any
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


def set_op_attribute(op: tf.Operation, name: str, value: Any) -> None:
    """Sets an attribute of an op that exists.

    Finished ops cannot be changed publicly. Relies on `Operation._set_attr`.

    Args:
        op: The op.
        name: Name of the attribute; one that begins with an underscore suits every op.
        value: A `tf.compat.v1.AttrValue`.
    """
    op._set_attr(name, value)


def function_in(graph: Any, name: str) -> Any:
    """Returns the function called `name` of a graph's own library, None where it has none.

    Functions of v1 are known to the library, too. Relies on `Graph._is_function` and
    `Graph._get_function`; the public ways read the library as a proto, of all its functions.
    """
    return graph._get_function(name) if graph._is_function(name) else None


def knows_function(graph: Any, name: Any) -> bool:
    """Returns whether a graph's library has a function of this name.

    Relies on `Graph._is_function`, as `function_in` does.
    """
    return bool(graph._is_function(name))


def add_function(graph: FuncGraph, function: Any) -> None:
    """Adds a function to a graph's library, with all that it calls.

    An op that calls it needs it there. Relies on `Graph._add_function_recursive`, as the public
    `ConcreteFunction.add_to_graph` asks for a concrete function.
    """
    graph._add_function_recursive(function)


def call_flat(function: ConcreteFunction, inputs: Sequence[tf.Tensor]) -> Any:
    """Calls a concrete function with its inputs in their flat order, captured ones among them.

    A public call packs and checks arguments by a signature, which the function of a copied graph
    does not have. Relies on `ConcreteFunction._call_flat`.
    """
    return function._call_flat(inputs, [])


def forward_graph(gradient_graph: Any) -> FuncGraph:
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


def loop_body(loop: tf.Operation) -> FuncGraph | None:
    """Returns the graph of a loop's body, None where the loop was read from a file.

    The op itself only has the name of the body. Relies on `while_v2`, which sets
    `Operation._body_graph`.
    """
    return getattr(loop, "_body_graph", None)


def loop_of_body(body: FuncGraph) -> tf.Operation | None:
    """Returns the loop whose body a graph is, None before TensorFlow builds its gradient.

    Relies on `while_v2`, which then sets `FuncGraph._while`.
    """
    return getattr(body, "_while", None)


def loop_counter_of(graph: Any, given: tf.Tensor | None = None) -> tf.Tensor | None:
    """Returns the number of the iteration in the innermost loop whose body a graph is part of.

    No public name gives it. Relies on `while_v2`, whose bodies take it as their first input, and
    on the class of their graphs.

    Args:
        graph: The graph.
        given: The number in a graph that its loop calls as a function.
    """
    while isinstance(graph, FuncGraph):
        if given is not None and given.graph is graph:
            return given
        if isinstance(graph, WhileBodyFuncGraph):
            return graph.inputs[0]
        graph = graph.outer_graph
    return None


def variable_spec(handle: tf.Tensor) -> tf.TensorSpec:
    """Returns shape and type of a variable that may have no value, from its handle.

    The handle is all that a captured variable leaves. Relies on `EagerTensor._handle_data`; a
    handle of a session's graph has it in the graph.
    """
    data = handle._handle_data if is_eager(handle) else get_resource_handle_data(handle)
    described = data.shape_and_type[0]
    return tf.TensorSpec(tf.TensorShape(described.shape), tf.as_dtype(described.dtype))


def uses_autograph(function: Any) -> bool:
    """Returns whether a tf.function converts its Python function by AutoGraph.

    Relies on the `_autograph` that `tf.function(autograph=...)` is kept in. Other callables, such
    as concrete functions, convert nothing.
    """
    return bool(getattr(function, "_autograph", False))


def jit_compiles(function: Any) -> bool:
    """Returns whether a tf.function or concrete function was made with `jit_compile=True`.

    Relies on the `_jit_compile` that `tf.function(jit_compile=...)` is kept in, and on the
    attribute of the functions that it traces.
    """
    if isinstance(function, ConcreteFunction):
        attribute = function.function_def.attr.get(XLA_MUST_COMPILE)
        return attribute is not None and bool(attribute.b)
    return bool(getattr(function, "_jit_compile", False))


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function converted by AutoGraph, although what calls it is not.

    The public `tf.autograph.to_graph` converts neither lambdas nor what a function calls. Relies on
    `tf_convert` and its contexts, as `tf.function` does.
    """
    enabled = ag_ctx.ControlStatusCtx(status=ag_ctx.Status.ENABLED)
    convert: Callable[..., Callable[..., Any]] = tf.__internal__.autograph.tf_convert
    return convert(function, enabled)


def converted_like_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function converted by AutoGraph if AutoGraph converts the caller.

    TensorFlow does so with the functions that `tf.data` and strategies call. Relies on
    `tf_convert` and `control_status_ctx`, which have no public names.
    """
    convert: Callable[..., Callable[..., Any]] = tf.__internal__.autograph.tf_convert
    return convert(function, tf.__internal__.autograph.control_status_ctx())


def is_in_loop_body(graph: Any) -> bool:
    """Returns whether a graph is the body of a loop, or a branch or function inside of one.

    Nothing public tells the graphs of loops from others. Relies on `WhileBodyFuncGraph`.
    """
    while isinstance(graph, FuncGraph):
        if isinstance(graph, WhileBodyFuncGraph):
            return True
        graph = graph.outer_graph
    return False


def register_pfor_converter(op_type: str, convert: Callable[[Any], tf.Tensor]) -> None:
    """Registers what does an op for all iterations of a vectorised loop at once.

    An op that has a converter keeps it. There is no public way to register one for an op of one's
    own. Relies on the `_pfor_converter_registry` of `parallel_for.pfor`.

    Args:
        op_type: The type of the op.
        convert: Takes TensorFlow's `_PforInput`; returns the results, the iterations in front.
    """

    def converter(pfor_input: Any) -> Any:
        return pfor_wrap(convert(pfor_input), True)

    _pfor_converter_registry.setdefault(op_type, converter)


@contextlib.contextmanager
def eagerly_outside_of_functions() -> Iterator[None]:
    """Runs the code inside eagerly, as if no tf.function were being traced.

    The public `tf.init_scope` keeps the rule that a tf.function creates variables in its first
    trace alone, which it attaches to the default graph. Relies on `context.eager_mode`.
    """
    with tf.init_scope(), tf.Graph().as_default(), eager_context_module.eager_mode():
        yield


def elements_of(iterator_spec: IteratorSpec) -> Any:
    """Returns the specification of the elements of an iterator, from that of the iterator.

    Relies on `IteratorSpec._element_spec`.
    """
    return iterator_spec._element_spec


def strategy_of(extended: Any) -> tf.distribute.Strategy:
    """Returns the strategy that a `tf.distribute.StrategyExtended` extends.

    The public `tf.distribute.get_strategy` is that in force, which may be another. Relies on
    `StrategyExtendedV2._container_strategy`.
    """
    return extended._container_strategy()


def dataset_inputs(dataset: Any) -> list[Any]:
    """Returns the datasets that a dataset transforms.

    No public name tells where the shape of an element was lost. Relies on `Dataset._inputs`.
    """
    inputs: list[Any] = dataset._inputs()
    return inputs


def dataset_drops_remainder(dataset: Any) -> Any:
    """Returns the scalar tensor that says whether a dataset drops its last partial batch.

    It is None for a dataset that makes no batches. No public name tells how one was batched.
    Relies on the `_drop_remainder` of the classes of batched datasets.
    """
    return getattr(dataset, "_drop_remainder", None)


def atomic_function_from_def(definition: Any, function_type: Any, children: Sequence[Any]) -> Any:
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


def in_jitted_function(graph: Any) -> bool:
    """Returns whether a graph is, or lies in, that of a function with `jit_compile=True`.

    Only the context in which it is built says so. Relies on
    `control_flow_util.GraphOrParentsInXlaContext`.
    """
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def makes_calls_of_xla(graph: Any) -> bool:
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


def has_effects(operation: tf.Operation) -> bool:
    """Returns whether an operation is stateful, as TensorFlow's own order of operations sees it.

    Relies on `Operation._is_stateful`; the public definition of an op lacks the effects of calls.
    """
    return bool(operation._is_stateful)


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], *, name: str = "function"
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


def create_slots(optimizer: Any, variables: list[tf.Variable]) -> None:
    """Makes the state that an optimizer of TensorFlow keeps of variables, outside of any graph.

    The first update would make it, in the middle of a trace. Relies on `Optimizer._create_slots` of
    `tf.compat.v1.train`, and on `OptimizerV2._create_all_weights` of Keras 2.
    """
    create = getattr(optimizer, "_create_all_weights", getattr(optimizer, "_create_slots", None))
    if create is not None:
        with tf.init_scope():
            create(variables)


@contextlib.contextmanager
def dispatching(handle: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]) -> Iterator[None]:
    """Lets a function handle calls of TensorFlow's functions that fail on their arguments.

    TensorFlow can register such a function, but not remove it. It asks first for the functions
    that a called one calls itself; they are left out, as their results would be of parts of the
    call. Relies on the `_GLOBAL_DISPATCHERS` of `dispatch`, and on the name of its wrapper.

    Args:
        handle: Gets a function of TensorFlow with its arguments; returns its result, or
            `NotImplemented`.
    """

    class Dispatcher(dispatch.GlobalOpDispatcher):
        def handle(self, op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            result = NotImplemented if _is_nested_call() else handle(op, args, kwargs)
            return self.NOT_SUPPORTED if result is NotImplemented else result

    dispatcher = Dispatcher()
    dispatch._GLOBAL_DISPATCHERS.append(dispatcher)
    try:
        yield
    finally:
        dispatch._GLOBAL_DISPATCHERS.remove(dispatcher)


def _is_nested_call() -> bool:
    """Returns whether a function of TensorFlow is called by another one.

    Relies on the name of the wrapper of functions in TensorFlow's module `dispatch`.
    """
    frame = inspect.currentframe()
    wrappers = 0
    while frame is not None:
        code = frame.f_code
        wrappers += code.co_name == "op_dispatch_handler" and "dispatch.py" in code.co_filename
        frame = frame.f_back
    return wrappers > 1


def public_name_of(function: Any) -> str | None:
    """Returns the name of a function in `tf`, such as "math.reduce_sum", None if it has none.

    Relies on `tf_export.get_canonical_name_for_symbol`.
    """
    name: str | None = tf_export.get_canonical_name_for_symbol(function)
    return name


def graph_of_session() -> Any:
    """Returns the graph of TensorFlow 1 around all functions, None in eager mode.

    Relies on `tf.init_scope`, which leaves the graphs of functions alone.
    """
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def is_eager(tensor: Any) -> bool:
    """Returns whether a tensor has a value, whatever the mode; those of graphs have none.

    Relies on `EagerTensor`, as `tf.is_symbolic_tensor` is about Keras and functions.
    """
    return isinstance(tensor, EagerTensor)


def device_of_new_ops() -> str:
    """Returns the name of the device that the graph being built gives to new ops, "" for none.

    Only an op has it. Relies on `Operation._set_device`, which leaves that op without one: a
    session refuses devices that it does not have.
    """
    op = tf.no_op(name="device_of_new_ops")
    device = str(op.device)
    op._set_device("")
    return device


@contextlib.contextmanager
def without_strategy() -> Iterator[None]:
    """Makes the code inside, in a function of a session's graph, run as under no strategy.

    Optimizers reduce nothing over replicas, and variables are made as around the function. No
    public context leaves a scope. Relies on the stacks of `distribute_lib` and of
    `Graph._variable_creator_stack`, as the scopes do.
    """
    graph = tf.compat.v1.get_default_graph()
    creators = graph._variable_creator_stack
    graph._variable_creator_stack = graph_of_session()._variable_creator_stack
    distribute_lib._push_per_thread_mode(distribute_lib._get_default_replica_mode())
    try:
        yield
    finally:
        distribute_lib._pop_per_thread_mode()
        graph._variable_creator_stack = creators


def with_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function whose control flow over tensors becomes operations while graphs are built.

    Eager calls run it as it is. Relies on `tf_convert`, which TensorFlow's own loops use.
    """
    converted = tf_convert(function, ControlStatusCtx(status=Status.ENABLED))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if tf.executing_eagerly() else converted)(*args, **kwargs)

    return call
