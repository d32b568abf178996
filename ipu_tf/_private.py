"""Every private TensorFlow / Keras name that ipu_tf uses, each with its reason.

No other module may import from `tensorflow.python` or `keras.src`; a test keeps it so.
"""

# The type of what has no public type.
from typing import Any

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

# Stock gradients of ops whose tile twins have the same attributes are reused.
from tensorflow.python.framework.ops import gradient_registry as gradient_registry

# Vectorised loops convert the ops of their bodies by this table, each result wrapped.
from tensorflow.python.ops.parallel_for.pfor import _pfor_converter_registry as pfor_converters
from tensorflow.python.ops.parallel_for.pfor import wrap as pfor_wrap

# Methods decorated with tf.function hide their instance behind this class.
from tensorflow.python.eager.polymorphic_function.tf_method_target import (
    TfMethodTarget as TfMethodTarget,
)

# tf.function wraps its Python function in decorators; the cache needs the function itself.
from tensorflow.python.util.tf_decorator import unwrap as unwrap_decorators

# The eager iterator of a dataset, for an infeed that refuses to be read eagerly.
from tensorflow.python.data.ops.iterator_ops import IteratorSpec as IteratorSpec
from tensorflow.python.data.ops.iterator_ops import OwnedIterator as OwnedIterator

# The public tf.distribute.Strategy has no public way to say that a replica context is of ours.
from tensorflow.python.distribute.distribute_lib import UpdateContext as UpdateContext

# Keras exports no name for the class of functional models, nor its test for their arguments.
from keras.src.models.functional import Functional as KerasFunctional
from keras.src.models.model import functional_init_arguments as is_functional_call

# AutoGraph has to call `strategy.run` as it is, yet go on converting the user's function in it
# (the public `do_not_convert` would switch it off for that function, too).
from tensorflow.python.autograph.impl.api import autograph_artifact as autograph_artifact

# The shape of a variable travels with its handle; copying a graph has to copy it, too.
from tensorflow.python.ops.handle_data_util import copy_handle_data as copy_handle_data

# A concrete function that was traced before is replaced by its rewritten copy where it is called.
from tensorflow.python.eager.polymorphic_function.concrete_function import (
    ConcreteFunction as ConcreteFunction,
)

# A function is converted by AutoGraph although the function that traces it must not be.
from tensorflow.python.autograph.core import ag_ctx as ag_ctx

# What tells traces of one tf.function apart has to include who traces it.
from tensorflow.python.eager.polymorphic_function import function_context as function_context

# Signatures with open sizes are given the sizes of the call when a function is traced.
from tensorflow.core.function.trace_type import InternalCastContext as InternalCastContext
from tensorflow.python.eager.polymorphic_function import function_type_utils as function_type_utils
from tensorflow.python.eager.polymorphic_function import (
    tracing_compilation as tracing_compilation,
)

# The path of the layer that is being called; TensorFlow's name scopes number layers anew.
from keras.src.backend.common.name_scope import current_path as keras_layer_path

# Whether an optimizer is being called is known by the callers of Keras' open name scopes.
from keras.src.backend.common import global_state as keras_global_state

# Functions that layers call get the scope of the layer, as TensorFlow does with loops and branches.
from tensorflow.python.framework.func_graph import (
    override_func_graph_name_scope as override_func_graph_name_scope,
)

# Which variables of a function are trainable: where no Keras model says it, their use does.
from tensorflow.python.eager.record import VariableWatcher as VariableWatcher

# Ops must not be joined while a tape remembers them one by one.
from tensorflow.python.eager.record import could_possibly_record as is_recording

# A function is given to XLA by its proto, without being traced or built once more: this registers
# it, asks for its HLO, and forgets it.
from tensorflow.python.eager.context import context as eager_context

# Whether gradients of conditionals use optionals, which XLA does not have, is asked of this module.
from tensorflow.python.eager import context as eager_context_module

# Gradients of conditionals without optionals capture handles of variables in a way XLA refuses.
from tensorflow.python.ops import cond_v2 as cond_v2

# What XLA answers with.
from tensorflow.compiler.xla.service.hlo_pb2 import HloModuleProto as HloModuleProto
from tensorflow.core.framework.function_pb2 import FunctionDef as FunctionDef

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

# Keras takes a data adapter of one's own in place of data, but exports neither its base class nor
# the function that finds the stock adapter of some data.
from keras.src.trainers.data_adapters import get_data_adapter as keras_data_adapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter as KerasDataAdapter

# Whether a model is written to an `.h5` file, which has a configuration and no assets.
from keras.src.backend.common.global_state import (
    get_global_attribute as keras_global_attribute,
)


def dataset_inputs(dataset: Any) -> list[Any]:
    """Returns the datasets that a dataset transforms.

    No public name tells where the shape of an element was lost.
    """
    inputs: list[Any] = dataset._inputs()
    return inputs


def dataset_drops_remainder(dataset: Any) -> Any:
    """Returns the scalar tensor that says whether a dataset drops its last partial batch.

    It is None for a dataset that makes no batches. No public name tells how one was batched.
    """
    return getattr(dataset, "_drop_remainder", None)
