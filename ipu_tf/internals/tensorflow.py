"""The private names of TensorFlow that ipu_tf imports, each with its reason.

Those of graphs and of AutoGraph are in `graphs` and `autograph`. No module outside of `internals`
may import from `tensorflow.python`, or use an attribute of TensorFlow's objects that begins with an
underscore; a test over the syntax tree keeps it so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf

# There is no public hook that sees an op before it is created in a function's graph.
from tensorflow.python.framework.func_graph import FuncGraph as FuncGraph
from ipu_tf.internals.structures import SpecStructure

# The body of a function that was traced elsewhere has to be read back to be rewritten.
from tensorflow.python.framework.function_def_to_graph import (
    function_def_to_graph as function_def_to_graph,
)

# A rewritten body has to become a function of the library again.
from tensorflow.python.eager.polymorphic_function.atomic_function import (
    from_func_graph as atomic_function_from_func_graph,
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

# The file of an exported model is rewritten with stock ops in place of tile ops; TensorFlow has no
# public class for it.
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModelProto

# All that `tf.io.gfile` does with a path goes through this module.
from tensorflow.python.lib.io import _pywrap_file_io as file_operations


# The value of what is computed from constants: `tf.get_static_value` knows that of few operations.
from tensorflow.python.framework.smart_cond import smart_constant_value as evaluated_constant

# The eager iterator of a dataset, for an infeed that refuses to be read eagerly.
from tensorflow.python.data.ops.iterator_ops import IteratorSpec as IteratorSpec
from tensorflow.python.data.ops.iterator_ops import OwnedIterator as OwnedIterator

# The public tf.distribute.Strategy has no public way to say that a replica context is of ours.
from tensorflow.python.distribute.distribute_lib import UpdateContext as UpdateContext

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

# The module in which TensorFlow's batch norms find their kernel, of single precision.
from tensorflow.python.ops import gen_nn_ops as nn_kernels

# Functions with `jit_compile=True` inside of replicas are not compiled on their own: the context in
# which they are built, and the attribute of their definitions.
from tensorflow.python.eager.polymorphic_function.attributes import (
    XLA_COMPILE as XLA_MUST_COMPILE,
)
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    OptionalXlaContext as OptionalXlaContext,
)

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

# What looks at a program's results is no part of what a tape around the program records.
from tensorflow.python.eager.record import stop_recording as stop_recording

# A tape sees the calls of replicas, which are made op by op, as one operation.
from tensorflow.python.eager.record import record_operation as record_operation

# A function is given to XLA by its proto, without being traced or built once more: this registers
# it, asks for its HLO, and forgets it.
from tensorflow.python.eager.context import context as eager_context

# What XLA answers with.
from tensorflow.compiler.xla.service.hlo_pb2 import HloModuleProto as HloModuleProto
from tensorflow.core.framework.function_pb2 import FunctionDef as FunctionDef


# The signature of a type of op.
from tensorflow.core.framework.op_def_pb2 import OpDef as OpDef

# A node of a FunctionDef that is made one by one.
from tensorflow.core.framework.node_def_pb2 import NodeDef as NodeDef
from tensorflow.core.framework.tensor_pb2 import TensorProto as TensorProto

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


# A session's graph has no eager context around it, which XLA needs to be asked for HLO.
from tensorflow.python.eager.context import eager_mode as eager_mode

# Tells captured values from tensors of a session's graph.
from tensorflow.python.framework.ops import EagerTensor as EagerTensor

# The modules whose functions `patches` replaces.
from tensorflow.python.eager import context as eager_context_module
from tensorflow.python.eager.polymorphic_function import function_context as function_context
from tensorflow.python.ops import cond_v2

CondGradientGraph = cond_v2._CondGradFuncGraph
"""The class of graphs that hold the gradient of a branch; only its name says so."""


def register_pfor_converter(op_type: str, convert: Callable[..., tf.Tensor]) -> None:
    """Registers what does an op for all iterations of a vectorised loop at once.

    An op that has a converter keeps it. There is no public way to register one for an op of one's
    own. Relies on the `_pfor_converter_registry` of `parallel_for.pfor`.

    Args:
        op_type: The type of the op.
        convert: Takes TensorFlow's `_PforInput`; returns the results, the iterations in front.
    """

    def converter(pfor_input: object) -> object:
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


def elements_of(iterator_spec: IteratorSpec) -> SpecStructure:
    """Returns the specification of the elements of an iterator, from that of the iterator.

    Relies on `IteratorSpec._element_spec`.
    """
    return iterator_spec._element_spec


def strategy_of(extended: tf.distribute.StrategyExtended) -> tf.distribute.Strategy:
    """Returns the strategy that a `tf.distribute.StrategyExtended` extends.

    The public `tf.distribute.get_strategy` is that in force, which may be another. Relies on
    `StrategyExtendedV2._container_strategy`.
    """
    return extended._container_strategy()


def strategy_of_variable(variable: tf.Variable) -> tf.distribute.Strategy | None:
    """Returns the strategy in whose scope a variable was made, None without one.

    Relies on `Variable._distribute_strategy`.
    """
    return getattr(variable, "_distribute_strategy", None)


def read_through(variable: tf.Variable, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Makes reads of a variable give what a function makes of its value; assignments stay.

    TensorFlow's variables that are reduced when read belong to its own strategies. Relies on
    `ResourceVariable._read_variable_op`, by which all reads of the whole value go.
    """
    read_op = variable._read_variable_op
    variable._read_variable_op = lambda *args, **kwargs: function(read_op(*args, **kwargs))


def dataset_inputs(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the datasets that a dataset transforms.

    No public name tells where the shape of an element was lost. Relies on `Dataset._inputs`.
    """
    inputs: list[tf.data.Dataset] = dataset._inputs()
    return inputs


def dataset_drops_remainder(dataset: tf.data.Dataset) -> tf.Tensor:
    """Returns the scalar tensor that says whether a dataset drops its last partial batch.

    It is None for a dataset that makes no batches. No public name tells how one was batched.
    Relies on the `_drop_remainder` of the classes of batched datasets.
    """
    return getattr(dataset, "_drop_remainder", None)
