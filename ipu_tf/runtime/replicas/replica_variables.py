"""The variables of a program on several replicas.

Replica 0 uses the variable itself. The others use copies, which a store keeps from run to run: its
lifetime is that of the variable. When a variable was assigned since the last run, all replicas
start from the new value.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph, copy_handle_data
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.extraction.hlo_region import Captures, is_variable

_LOG = logging.getLogger(__name__)

SEED_STRIDE = 0x9E3779B9
"""The golden ratio of 2**32: neighbouring replicas get distant seeds."""

_SEED_ELEMENTS: Mapping[str, int] = MappingProxyType({"seed_generator_state": 0, "StateVar": 2})
"""The places of the seeds in the states of Keras' SeedGenerator and of tf.random.Generator, by the
names that these give their variables."""

_stores: dict[int, tf.Tensor] = {}
"""Stores by the identity of the handles of their variables."""

_announced: set[int] = set()
"""The identities of the variables whose differences were logged."""


class ReplicaVariables:
    """The variables that a traced program uses, on each of its replicas.

    The ops are created in the graph around the program.

    Args:
        graph: The traced program, which captures the variables.
        count: Number of replicas.
        offset: Number of the first of them.
    """

    def __init__(self, graph: FuncGraph, count: int, offset: int = 0) -> None:
        self._count, self._offset = count, offset
        variables_by_handle = {id(variable.handle): variable for variable in graph.variables}
        captures = Captures()
        self._captured: list[tuple[tf.Tensor, tf.Tensor]] = []
        self._variables: list[tf.Variable | None] = []
        self._handles: dict[int, Sequence[tf.Tensor]] = {}
        for outer, inner in graph.captures:
            if outer.dtype != tf.resource:
                continue
            if not is_variable(inner):
                self._handles[id(outer)] = _handles(outer, inner, count)
                continue
            source = captures.source(outer)
            store = _store(source if source is not None else outer)
            variable = variables_by_handle.get(id(source if source is not None else outer))
            self._captured.append((store, outer))
            self._variables.append(variable)
            self._handles[id(outer)] = self._of_replicas(store, outer, inner, variable)

    def inputs(self, captured: Sequence[tf.Tensor], replica: int) -> list[tf.Tensor]:
        """Returns the tensors that a replica gets in place of those that the program captures."""
        return [
            self._handles[id(tensor)][replica] if id(tensor) in self._handles else tensor
            for tensor in captured
        ]

    def keep(self) -> None:
        """Ends the run for the variables; where replicas differ, a notice names them, once."""
        if not self._captured:
            return
        ops = library.load()
        differ = tf.stack(
            [
                ops.ipu_keep_replica_variables(store=store, variable=outer)
                for store, outer in self._captured
            ]
        )
        references = [None if one is None else weakref.ref(one) for one in self._variables]

        def announce() -> tf.Tensor:
            announcement = tf.numpy_function(
                functools.partial(_announce, references), [differ], tf.bool
            )
            return tf.ensure_shape(announcement, ())

        tf.cond(tf.reduce_any(differ), announce, lambda: tf.constant(False))

    def _of_replicas(
        self,
        store: tf.Tensor,
        outer: tf.Tensor,
        inner: tf.Tensor,
        variable: tf.Variable | None,
    ) -> Sequence[tf.Tensor]:
        handles: Sequence[tf.Tensor] = library.load().ipu_replica_variables(
            store=store,
            variable=outer,
            count=self._count,
            offset=self._offset,
            **_seeding(variable),
        )
        for handle in handles:
            copy_handle_data(inner, handle)
        return handles


def _store(handle: tf.Tensor) -> tf.Tensor:
    """Returns the store of the copies of a variable, which lives as long as its handle."""
    if id(handle) not in _stores:
        with tf.init_scope():
            _stores[id(handle)] = library.load().ipu_replica_store()
        weakref.finalize(handle, _stores.pop, id(handle), None).atexit = False
    return _stores[id(handle)]


def _handles(outer: tf.Tensor, inner: tf.Tensor, count: int) -> Sequence[tf.Tensor]:
    """Returns the handle of an iterator or a table for each replica, as tensors of their own.

    TensorFlow lets functions that use the same tensor of a resource run one after the other.
    """
    handles: Sequence[tf.Tensor] = library.load().ipu_replica_handles(handle=outer, count=count)
    for handle in handles:
        copy_handle_data(inner, handle)
    return handles


def _seeding(variable: tf.Variable | None) -> Mapping[str, int]:
    """Returns how the values of the copies differ at first: only seeds do."""
    if variable is None or not variable.dtype.is_integer:
        return {}
    name = variable.name.partition(":")[0].rpartition("/")[2]
    if name not in _SEED_ELEMENTS:
        return {}
    return {"seed_stride": SEED_STRIDE, "seed_element": _SEED_ELEMENTS[name]}


def _announce(variables: Sequence[Any], differ: Any) -> bool:
    """Logs which variables differ between replicas, each variable once; returns whether it did."""
    live_variables = [
        variable
        for reference, is_different in zip(variables, differ, strict=True)
        if is_different and reference is not None
        if (variable := reference()) is not None
        if id(variable) not in _announced and not _seeding(variable)
    ]
    if not live_variables:
        return False
    for variable in live_variables:
        _announced.add(id(variable))
        weakref.finalize(variable, _announced.discard, id(variable)).atexit = False
    names = ", ".join(f"'{variable.name.partition(':')[0]}'" for variable in live_variables)
    _LOG.warning(
        "The replicas of a program hold different values of %s. Outside of the program a variable "
        "has the value of replica 0; the others keep theirs for the next run. If all replicas "
        "should hold the same, combine what they assign by a collective such as "
        "cross_replica_ops.cross_replica_sum.",
        names,
    )
    return True
