"""Tables of embeddings that stay in the memory of the host.

A program sends row numbers to the host, which returns the rows; gradients go back the same way
and update the table there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf import scopes

_STRATEGIES = ("TOKEN", "ENCODING")


class HostEmbeddingOptimizerSpec:
    """Updates a table by gradient descent at every gradient of a lookup.

    Args:
        learning_rate: The learning rate.
        optimizer_name: Name of the optimizer, for errors; "SGD" by default.
    """

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        self._learning_rate = learning_rate
        self.optimizer_name = optimizer_name or "SGD"

    def get_learning_rate(self) -> tf.Tensor | float:
        """Returns the learning rate."""
        return self._learning_rate

    def create_slot_variables(self, embedding_tensor: tf.Variable, name: str) -> list[tf.Variable]:
        """Returns the variables that an update needs beside the table.

        The only one is a scalar: tapes watch it, and so compute the gradients of lookups.

        Args:
            embedding_tensor: The table.
            name: Name of the embedding.
        """
        return [tf.Variable(0, dtype=embedding_tensor.dtype, name=f"{name}_link")]

    def create_lookup_instruction(
        self,
        embedding_tensor: tf.Variable,
        indices: tf.Tensor,
        slot_vars: Sequence[tf.Variable],
        partition_strategy: str,
        name: str,
    ) -> tf.Tensor:
        """Returns rows of a table; their gradient updates the table.

        Args:
            embedding_tensor: The table.
            indices: Numbers of rows, int32.
            slot_vars: The variables of `create_slot_variables`.
            partition_strategy: Accepted; one host has the whole table.
            name: Name of the operation.
        """
        del partition_strategy

        def update(handles: Sequence[tf.Tensor], rows: tf.Tensor, gradients: tf.Tensor) -> None:
            self._update(handles, rows, gradients)

        return _looked_up(embedding_tensor, indices, name, slot_vars, update)

    def create_register_instruction(
        self, embedding_tensor: tf.Variable, slot_vars: Sequence[tf.Variable], name: str
    ) -> None:
        """Does nothing: a process has its tables at hand."""
        del embedding_tensor, slot_vars, name

    def create_deregister_instruction(
        self, embedding_tensor: tf.Variable, slot_vars: Sequence[tf.Variable], name: str
    ) -> None:
        """Does nothing; see `create_register_instruction`."""
        del embedding_tensor, slot_vars, name

    def _update(self, handles: Sequence[tf.Tensor], rows: tf.Tensor, gradients: tf.Tensor) -> None:
        """Updates rows of the table with their gradients, those of equal rows added up.

        Args:
            handles: Those of the table and its slots.
            rows: Numbers of rows.
            gradients: Their gradients.
        """
        rate = tf.cast(self._learning_rate, gradients.dtype)
        tf.raw_ops.ResourceScatterSub(resource=handles[0], indices=rows, updates=rate * gradients)


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Updates a table by gradient descent with the sum of the gradients of several lookups.

    Args:
        learning_rate: The learning rate.
        accumulation_factor: Number of gradients that make one update.

    Raises:
        ValueError: The factor is no positive whole number.
    """

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        super().__init__(learning_rate, "SGD with gradient accumulation")
        is_whole = isinstance(accumulation_factor, int) and not isinstance(
            accumulation_factor, bool
        )
        if not is_whole or accumulation_factor < 1:
            raise ValueError(
                "HostEmbeddingSGDGAOptimizerSpec: accumulation_factor must be a positive integer. "
                f"Received: accumulation_factor={accumulation_factor!r}."
            )
        self._accumulation_factor = accumulation_factor

    def get_accumulation_factor(self) -> int:
        """Returns the number of gradients that make one update."""
        return self._accumulation_factor

    def create_slot_variables(self, embedding_tensor: tf.Variable, name: str) -> list[tf.Variable]:
        """Returns the variables that an update needs: those of its base, sums, and their number.

        Args:
            embedding_tensor: The table.
            name: Name of the embedding.
        """
        sums = tf.Variable(tf.zeros_like(embedding_tensor), trainable=False, name=f"{name}_sums")
        count = tf.Variable(0, trainable=False, name=f"{name}_count")
        return [*super().create_slot_variables(embedding_tensor, name), sums, count]

    def _update(self, handles: Sequence[tf.Tensor], rows: tf.Tensor, gradients: tf.Tensor) -> None:
        table, _, sums, count = handles
        tf.raw_ops.ResourceScatterAdd(resource=sums, indices=rows, updates=gradients)
        number = tf.raw_ops.ReadVariableOp(resource=count, dtype=tf.int32) + 1

        def apply() -> tf.Tensor:
            total = tf.raw_ops.ReadVariableOp(resource=sums, dtype=gradients.dtype)
            rate = tf.cast(self._learning_rate, total.dtype)
            tf.raw_ops.AssignSubVariableOp(resource=table, value=rate * total)
            tf.raw_ops.AssignVariableOp(resource=sums, value=tf.zeros_like(total))
            return tf.zeros_like(number)

        is_last = tf.equal(number, self._accumulation_factor)
        number = tf.cond(is_last, apply, lambda: number)
        tf.raw_ops.AssignVariableOp(resource=count, value=number)


class HostEmbedding:
    """A table of embeddings in the memory of the host; `create_host_embedding` makes it.

    Args:
        name: Name of the table.
        embedding_tensor: The table, a variable of shape [rows, columns].
        partition_strategy: "TOKEN" or "ENCODING", how replicas would share lookups; without
            effect, for one host has the whole table.
        optimizer_spec: Updates the table with gradients of lookups; None leaves it as it is.

    Raises:
        ValueError: The table is not of rank 2, or there is no such strategy.
    """

    def __init__(
        self,
        name: str,
        embedding_tensor: tf.Variable,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        if partition_strategy not in _STRATEGIES:
            raise ValueError(
                f"Host embedding '{name}': partition_strategy must be one of "
                f"{', '.join(_STRATEGIES)}. Received: {partition_strategy!r}."
            )
        if embedding_tensor.shape.rank != 2:
            raise ValueError(
                f"Host embedding '{name}': the table must have shape [rows, columns]. "
                f"Received: shape {embedding_tensor.shape}."
            )
        self._name = name
        self._table = embedding_tensor
        self._partition_strategy = partition_strategy
        self._optimizer_spec = optimizer_spec
        self._slots = (
            []
            if optimizer_spec is None
            else optimizer_spec.create_slot_variables(embedding_tensor, name)
        )

    def get_embedding_tensor(self) -> tf.Variable:
        """Returns the table."""
        return self._table

    @contextlib.contextmanager
    def register(self, session: tf.compat.v1.Session = None) -> Iterator[HostEmbedding]:
        """Makes the table known to the programs that run inside.

        Args:
            session: A session of TensorFlow 1; accepted without effect.
        """
        del session
        spec = self._optimizer_spec
        if spec is not None:
            spec.create_register_instruction(self._table, self._slots, self._name)
        try:
            yield self
        finally:
            if spec is not None:
                spec.create_deregister_instruction(self._table, self._slots, self._name)

    @tf.autograph.experimental.do_not_convert
    def lookup(self, indices: tf.Tensor, clip_indices: bool = True) -> tf.Tensor:
        """Returns rows of the table.

        With an optimizer, the gradient of the rows updates the table when it is computed. The table
        itself is no variable of the program, and has no gradient.

        Args:
            indices: Numbers of rows, int32 of any shape.
            clip_indices: Whether numbers out of range mean the first or last row; otherwise they
                raise when the program runs.

        Returns:
            A tensor of shape [*indices.shape, columns].

        Raises:
            ValueError: The numbers are no integers.
        """
        indices = tf.convert_to_tensor(indices)
        if not indices.dtype.is_integer:
            raise ValueError(
                f"Host embedding '{self._name}': indices must be integers; tf.cast them to "
                f"tf.int32. Received: {indices.dtype.name}."
            )
        indices = tf.cast(indices, tf.int32)
        with tf.name_scope(self._name):
            if clip_indices:
                indices = tf.clip_by_value(indices, 0, self._table.shape[0] - 1)
            if self._optimizer_spec is None:
                return _rows(self._table, indices, "lookup")
            return self._optimizer_spec.create_lookup_instruction(
                self._table, indices, self._slots, self._partition_strategy, "lookup"
            )


def create_host_embedding(
    name: str,
    shape: Sequence[int],
    dtype: tf.DType,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Callable[..., tf.Tensor] | None = None,
) -> HostEmbedding:
    """Returns a new table of embeddings in the memory of the host.

    Args:
        name: Name of the table.
        shape: Its shape, [rows, columns].
        dtype: Its type, float16 or float32.
        partition_strategy: See `HostEmbedding`.
        optimizer_spec: See there.
        initializer: Makes the first values from shape and dtype; Glorot's uniform by default.

    Raises:
        ValueError: The dtype is another; see `HostEmbedding`.
    """
    dtype = tf.as_dtype(dtype)
    if dtype not in (tf.float16, tf.float32):
        raise ValueError(
            f"Host embedding '{name}': dtype must be float16 or float32. Received: {dtype.name}."
        )
    initialize = initializer or tf.keras.initializers.GlorotUniform()
    table = tf.Variable(initialize(tuple(shape), dtype=dtype), name=name, dtype=dtype)
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)


def _looked_up(
    table: tf.Variable,
    indices: Any,
    name: str,
    slots: Sequence[tf.Variable],
    update: Callable[[Sequence[tf.Tensor], tf.Tensor, tf.Tensor], None],
) -> tf.Tensor:
    """Returns rows that the host looks up, and updates with their gradients.

    Args:
        table: The table.
        indices: Numbers of rows.
        name: Name of the operation.
        slots: The variables of an update. The first one is a trainable scalar: it has no part in
            the rows, and its gradient is 0.
        update: Updates rows with their gradients, on the host, from the handles of the table and
            the slots, numbers of rows, and gradients.
    """
    indices = tf.convert_to_tensor(indices)

    @tf.custom_gradient
    def lookup(link: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(indices, [-1])
            gradients = tf.reshape(upstream, [-1, table.shape[1]])
            _on_host(update, [table, *slots], [rows, gradients], [], f"{name}_update")
            return tf.zeros_like(link)

        return _rows(table, indices, name), gradient

    return lookup(tf.convert_to_tensor(slots[0]))


def _rows(table: tf.Variable, indices: tf.Tensor, name: str) -> tf.Tensor:
    """Returns rows of a table that the host looks up."""

    def gather(handles: Sequence[tf.Tensor], rows: tf.Tensor) -> tf.Tensor:
        try:
            return tf.raw_ops.ResourceGather(resource=handles[0], indices=rows, dtype=table.dtype)
        except tf.errors.InvalidArgumentError as error:
            # As a ValueError the program raises it again as an InvalidArgumentError.
            raise ValueError(
                f"Host embedding '{table.name.partition(':')[0]}' has {table.shape[0]} rows. "
                f"Received: numbers of rows from {tf.reduce_min(rows)} to {tf.reduce_max(rows)}."
            ) from error

    values = _on_host(gather, [table], [indices], table.dtype, name)
    # Loops and conditions keep the shape of an op, but not one that `set_shape` gives.
    return tf.ensure_shape(values, [*indices.shape, table.shape[1]])


def _on_host(
    function: Callable[..., Any],
    variables: Sequence[tf.Variable],
    tensors: Sequence[tf.Tensor],
    results: Any,
    name: str,
) -> Any:
    """Returns the results of a function that the host calls with the handles of variables.

    Args:
        function: Takes the list of handles, then the tensors.
        variables: The variables. A program does not count them as its own.
        tensors: The tensors.
        results: Types of the results.
        name: Name of the operation.
    """
    handles = [variable.handle for variable in variables]
    with tf.init_scope():
        are_eager = tf.executing_eagerly()
    if are_eager:
        return tf.py_function(
            lambda *values: function(handles, *values), list(tensors), results, name=name
        )
    # A session, which has the variables of a graph of TensorFlow 1, runs the operations themselves.
    with scopes.on_host(name):
        return function(handles, *tensors)
