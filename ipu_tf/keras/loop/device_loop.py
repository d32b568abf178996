"""The on-device loop: the steps of an execution in one call from the host.

A loop is built for one number of steps, but its tracing time does not depend on the number: it
is a loop in the program, too. `docs/keras.md` shows its order of batches, replicas and updates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf
from keras import tree

from ipu_tf.feeds import shared_programs
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.keras.replication import accumulation
from ipu_tf.keras.replication.instance_batches import of_whole_group
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.keras.steps.device_function import Step
from ipu_tf.keras.steps.training_steps import TrainingSteps

Read = Callable[[tf.Tensor], TensorStructure]
"""The number of a step within its execution (int32 scalar) to the batches of its replicas."""

Publish = Callable[[TensorStructure], None]
"""Takes the results of one step of one replica."""

Carry = tuple[tf.TensorArray, ...]

_Carry = tuple[Carry, accumulation.Carry]
"""The results of steps, and the sums of gradients."""

_CarryT = TypeVar("_CarryT")
_ResultT = TypeVar("_ResultT")


class DeviceLoop:
    """The loop of a model's method over the steps of an execution.

    Args:
        step: Runs one batch on one replica, as a program of the device.
        replicas: How the model is replicated.
        training: The programs of training with accumulation or replicas; they replace `step`.
        micro_batches: Steps of one weight update.
    """

    def __init__(
        self,
        step: Step,
        replicas: Replicas,
        *,
        training: TrainingSteps | None = None,
        micro_batches: int = 1,
    ) -> None:
        count, group = replicas.count, 1 if training is None else replicas.group
        # Traced once for each shape of a batch; the loops around it do not matter.
        self.step = tf.function(_in(lambda: shared_programs.taking_turns(count, group), step))
        self._update = None
        if training is not None:
            # The replicas share one update, whose values are those of each of them.
            everywhere = _in(lambda: shared_programs.of_all_replicas(count), training.update)
            self._update = tf.function(everywhere)
        self._training = training
        self._replicas = replicas
        self._micro_batches = micro_batches

    @property
    def trained_replicas(self) -> int:
        """Number of replicas whose gradients it sums, 1 if it does not train."""
        return 1 if self._training is None else self._replicas.total

    def concrete_step(self, batch_spec: SpecStructure) -> tf.types.experimental.ConcreteFunction:
        """Returns the traced step.

        Args:
            batch_spec: Shapes and types of one replica's batch.
        """
        if self._training is None:
            return self.step.get_concrete_function(batch_spec)
        scalar = tf.TensorSpec((), tf.int32)
        group = self._replicas.group
        group_spec = tree.map_structure(
            lambda spec: _with_rows(spec, group) if hasattr(spec, "shape") else spec, batch_spec
        )
        return self.step.get_concrete_function(group_spec, scalar, scalar)

    def run(
        self,
        steps: int | tf.Tensor,
        length: int,
        read: Read,
        batch_spec: SpecStructure,
        publish: Publish | None = None,
    ) -> TensorStructure:
        """Builds the loop in the caller's graph.

        Args:
            steps: Steps to run, at most `length`.
            length: Number of steps that the results have room for.
            read: Reads the batches of a step; called once for each step, in order.
            batch_spec: Shapes and types of one replica's batch.
            publish: Called for the results of each step of each replica, in order; adds the work on
                them before the loop ends to the program.

        Returns:
            The results of the steps, with leading axes `[length, replicas]`, of the replicas that
                the job gave this process.
        """
        outfeed = _Outfeed(self._result_spec(batch_spec), length * self._replicas.local, publish)
        for state in (self._replicas.group_state, self._replicas.metrics):
            if state is not None:
                state.broadcast_changes()
        if self._training is not None:
            self._training.note_program(self.concrete_step(batch_spec))
        updates = steps // self._micro_batches

        def update(index: tf.Tensor, carry: Carry) -> Carry:
            sums: accumulation.Carry = ()
            if self._training is not None:
                self._training.reset()
                sums = self._training.accumulator.empty()
            carry, sums = repeat(
                self._micro_batches,
                lambda k, inner: self._global_step(
                    index * self._micro_batches + k, k, read, outfeed, inner
                ),
                (carry, sums),
            )
            if self._update is not None:
                self._update(sums)
            return carry

        carry = repeat(updates, update, outfeed.empty())
        if self._replicas.group_state is not None:
            self._replicas.group_state.leave()
        return outfeed.results(carry, (length, self._replicas.local))

    def _result_spec(self, batch_spec: SpecStructure) -> SpecStructure:
        """Returns shapes and types of one replica's results."""
        results = self.concrete_step(batch_spec).structured_outputs
        if self._training is None:
            return results
        return tree.map_structure(lambda spec: tf.TensorSpec(spec.shape[1:], spec.dtype), results)

    def _global_step(
        self, step: tf.Tensor, micro_batch: tf.Tensor, read: Read, outfeed: _Outfeed, carry: _Carry
    ) -> _Carry:
        """Runs one step on every replica."""
        batches = read(step)
        if self._replicas.span > 1:
            batches = of_whole_group(batches, self._replicas, name="a step")
        first = step * self._replicas.local
        results, sums = carry
        if self._training is None:
            results = repeat(
                self._replicas.count,
                lambda replica, inner: outfeed.write(
                    inner, first + replica, self._on_replica(batches, replica)
                ),
                results,
            )
            return results, sums
        accumulator, size = self._training.accumulator, self._replicas.group

        def on_group(group: tf.Tensor, carry: _Carry) -> _Carry:
            results, sums = carry
            accumulator.begin(sums, group)
            results = outfeed.write_group(
                results,
                first + group * size,
                self._own_members,
                self._on_group(batches, group, micro_batch),
            )
            return results, accumulator.end(sums, group)

        return repeat(self._replicas.groups, on_group, carry)

    @property
    def _own_members(self) -> range:
        """The members of a group whose results this process has."""
        if self._replicas.span == 1:
            return range(self._replicas.group)
        first = self._replicas.first_local
        return range(first, first + self._replicas.local)

    def _on_replica(self, batches: TensorStructure, replica: tf.Tensor) -> TensorStructure:
        state, metrics = self._replicas.group_state, self._replicas.metrics
        group = replica // self._replicas.group
        if state is not None:
            state.load(group)
        if metrics is not None:
            metrics.load(replica)
        if self._replicas.count > 1:
            batches = _map(lambda leaf: leaf[replica], batches)
        results = self.step(batches)
        if state is not None:
            state.store(group)
        if metrics is not None:
            metrics.store(replica)
        return results

    def _on_group(
        self, batches: TensorStructure, group: tf.Tensor, micro_batch: tf.Tensor
    ) -> TensorStructure:
        state, size = self._replicas.group_state, self._replicas.group
        if self._replicas.count > 1:
            batches = _map(lambda leaf: _rows_of(leaf, group, size), batches)
        if state is not None:
            state.load(group)
        results = self.step(batches, group, micro_batch)
        if state is not None:
            state.store(group)
        return results


class _Outfeed:
    """The results of the steps of an execution, on their way to the host.

    Args:
        spec: Structure of the results of one step of one replica.
        size: Number of results.
        publish: Called for each of them, if given.
    """

    def __init__(self, spec: SpecStructure, size: int, publish: Publish | None) -> None:
        self._spec = spec
        self._size = size
        self._publish = publish

    def empty(self) -> Carry:
        """Returns an empty carry with room for all results."""
        return tuple(
            tf.TensorArray(spec.dtype, size=self._size, element_shape=spec.shape)
            for spec in tree.flatten(self._spec)
        )

    def write(self, carry: Carry, index: tf.Tensor, results: TensorStructure) -> Carry:
        """Returns `carry` with the results of one step of one replica in it."""
        if self._publish is not None:
            self._publish(results)
        leaves = tree.flatten(results)
        return tuple(array.write(index, leaf) for array, leaf in zip(carry, leaves, strict=True))

    def write_group(
        self, carry: Carry, first: tf.Tensor, members: range, results: TensorStructure
    ) -> Carry:
        """Returns `carry` with the results of members of a group, their leading axis, in it."""
        for index, member in enumerate(members):
            part = tree.map_structure(lambda leaf, member=member: leaf[member], results)
            carry = self.write(carry, first + index, part)
        return carry

    def results(self, carry: Carry, leading: tuple[int, int]) -> TensorStructure:
        """Returns all results; the `leading` axes replace the axis that they were written on."""
        leaves = [array.stack() for array in carry]
        leaves = [tf.reshape(leaf, [*leading, *leaf.shape[1:]]) for leaf in leaves]
        return tree.pack_sequence_as(self._spec, leaves)


def repeat(
    times: int | tf.Tensor, body: Callable[[tf.Tensor, _CarryT], _CarryT], carry: _CarryT
) -> _CarryT:
    """Returns `carry` after `times` applications of `body(index, carry)`."""
    if isinstance(times, int) and times == 1:
        return body(tf.constant(0), carry)
    _, result = tf.while_loop(
        lambda index, _: index < times,
        lambda index, inner: (index + 1, body(index, inner)),
        (tf.constant(0), carry),
        parallel_iterations=1,
    )
    return result


def _in(
    context: Callable[[], contextlib.AbstractContextManager[None]],
    function: Callable[..., _ResultT],
) -> Callable[..., _ResultT]:
    """Returns a function that runs in a context."""

    @tf.autograph.experimental.do_not_convert
    def run(*args: TensorStructure) -> _ResultT:
        with context():
            return function(*args)

    return run


def _map(function: Callable[[tf.Tensor], tf.Tensor], structure: TensorStructure) -> TensorStructure:
    return tree.map_structure(lambda leaf: None if leaf is None else function(leaf), structure)


def _rows_of(leaf: tf.Tensor, group: tf.Tensor, size: int) -> tf.Tensor:
    """Returns the batches of a group from `[replicas, batch, ...]`, one after the other."""
    rows = tf.slice(leaf, [group * size] + [0] * (leaf.ndim - 1), [size, *leaf.shape[1:]])
    return tf.reshape(rows, [size * leaf.shape[1], *leaf.shape[2:]])


def _with_rows(spec: tf.TensorSpec, times: int) -> tf.TensorSpec:
    return tf.TensorSpec([spec.shape[0] * times, *spec.shape[1:]], spec.dtype)
