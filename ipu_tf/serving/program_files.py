"""Writes an exported program to a folder, as a SavedModel of stock TensorFlow ops."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import SavedModelProto
from ipu_tf.serving import pipeline_loader, signatures, tracking
from ipu_tf.serving.serving_step import ServedStep, strategy_in_force
from ipu_tf.serving.signatures import StepSignature
from ipu_tf.serving.stock_graph import is_tile_op, make_stock

SIGNATURE = "serving_default"
"""Name of the signature of exported models."""

DESCRIPTION = Path("assets.extra") / "ipu_tf.json"
"""The file of a SavedModel with what the device needs to know beside the ops."""

_GRAPH = "saved_model.pb"
_FINGERPRINT = "fingerprint.pb"
_UNTRACKED = "untracked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramParts:
    """A step of the device, with the work on the host around it.

    Attributes:
        served: The step of the device.
        preprocessing: The work before it, or None.
        before: Signature of the work before it.
        postprocessing: The work after it, or None.
        after: Signature of the work after it, where it is given.
        output_names: Names of the outputs, where they are given.
    """

    served: ServedStep
    preprocessing: Callable[..., object] | None
    before: StepSignature | None
    postprocessing: Callable[..., object] | None
    after: StepSignature | None
    output_names: tuple[str, ...] | None

    @property
    def signature(self) -> StepSignature:
        """The inputs of all parts together."""
        return self.before or self.served.signature

    @property
    def resources(self) -> tuple[object, ...]:
        """Objects whose variables and tables the parts use."""
        return (*self.served.resources, self.preprocessing, self.postprocessing)

    def composed(
        self, run: Callable[[Sequence[tf.Tensor]], TensorStructure]
    ) -> tf.types.experimental.GenericFunction:
        """Returns a tf.function of all parts.

        Its results are a dict if their names are given, else those of the work after the step, or
        a list of those of the step, unless the step names them by a dict.

        Args:
            run: Runs the step of the device on flat inputs.
        """
        before, after = _in_graph(self.preprocessing), _in_graph(self.postprocessing)

        def predict(*args: Any) -> Any:
            inputs: Sequence[Any] = args
            if before is not None:
                results = signatures.call_step(before, self.signature.structured(args))
                signatures.check_results_fit(
                    "preprocessing_step", results, "predict_step", self.served.signature
                )
                inputs = tf.nest.flatten(self._input_order(results))
            results = run(inputs)
            if after is None:
                return self._by_name(results if isinstance(results, Mapping) else _list(results))
            if self.after is not None:
                signatures.check_results_fit(
                    "predict_step", results, "postprocessing_step", self.after
                )
            return self._by_name(signatures.call_step(after, results))

        return _function(predict, self.signature)

    def _by_name(self, results: Any) -> Any:
        """Returns results as a dict if their names are given.

        Raises:
            ValueError: There are not as many names, or a name occurs twice.
        """
        names = self.output_names
        if names is None:
            return results
        flat = _list(results)
        if not len(set(names)) == len(names) == len(flat):
            raise ValueError(
                f"`output_names` must have a name of its own for each of the {len(flat)} outputs. "
                f"Received: output_names={list(names)}."
            )
        return dict(zip(names, flat, strict=True))

    def _input_order(self, results: Any) -> Any:
        """Returns the results of the work before the step, those with names in its order."""
        if isinstance(results, Mapping) and set(results) == set(self.served.signature.names):
            return [results[name] for name in self.served.signature.names]
        return results


def export_parts(
    parts: ProgramParts,
    export_dir: str | os.PathLike[str],
    *,
    purge: bool,
    strategy: tf.distribute.Strategy | None,
) -> tf.types.experimental.GenericFunction:
    """Writes a program to a folder; returns the function that runs it on the device.

    Args:
        parts: The program.
        export_dir: The folder.
        purge: Whether to empty the folder.
        strategy: Runs the returned function outside of scopes; None for the strategy in force now.
            In the scope of another strategy, that one runs it.

    Raises:
        ValueError: The folder is not empty, names are not those of the outputs, or a part uses a
            table that cannot be found.
    """
    folder = _checked_folder(export_dir, purge)
    on_host = parts.composed(parts.served.call)
    root = tf.Module(name="ipu_tf_serving")
    root.predict = on_host
    root.program = _function(
        lambda *inputs: parts.served.call(inputs), parts.served.signature, name="program"
    )
    served = _with_named_outputs(parts, on_host)
    root.tracked = tracking.resources_of((root.program, on_host), parts.resources)
    _write(root, served, _description(parts), folder)
    own = strategy or strategy_in_force()
    return parts.composed(lambda inputs: parts.served.run(strategy_in_force(own), inputs))


def _with_named_outputs(parts: ProgramParts, on_host: Any) -> Any:
    """Returns the concrete function of the signature, which maps names to outputs."""
    results = on_host.get_concrete_function().structured_outputs
    count = len(_list(results))
    names = [f"output_{number}" for number in range(count)]
    if isinstance(results, Mapping) and len(results) == count:
        names = sorted(results)  # The order of `tf.nest`.

    def named(*args: Any) -> dict[str, tf.Tensor]:
        outputs = _list(on_host(*args))
        return {name: tf.identity(value) for name, value in zip(names, outputs, strict=True)}

    return _function(named, parts.signature, name="serve").get_concrete_function()


def _list(results: Any) -> list[Any]:
    flat: list[Any] = tf.nest.flatten(results)
    return flat


def _in_graph(step: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Returns a step as a tf.function, so that AutoGraph converts it."""
    kinds = (
        tf.types.experimental.PolymorphicFunction,
        tf.types.experimental.ConcreteFunction,
        type(None),
    )
    return step if isinstance(step, kinds) else tf.function(step)


def _function(body: Callable[..., Any], signature: StepSignature, name: str = "predict") -> Any:
    """Returns a tf.function whose parameters have the names of a signature."""

    def function(*args: Any) -> Any:
        return body(*args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in signature.names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__name__ = name
    return tf.function(function, input_signature=signature.specs, autograph=False)


def _checked_folder(export_dir: str | os.PathLike[str], purge: bool) -> Path:
    folder = Path(export_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The export directory '{folder}' is a file. Pass another directory.")
    if folder.exists() and any(folder.iterdir()) and not purge:
        raise ValueError(
            f"The export directory '{folder}' is not empty. Pass another directory, or "
            "`purge_export_dir=True` to delete its contents."
        )
    return folder


def _write(root: tf.Module, served: Any, description: Mapping[str, Any], folder: Path) -> None:
    """Writes a SavedModel beside the folder first, so that a failure leaves the folder as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        path = Path(temporary) / folder.name
        save_with_description(root, path, description, {SIGNATURE: served})
        if folder.exists():
            shutil.rmtree(folder)
        path.rename(folder)


def save_with_description(
    root: tf.Module,
    path: Path,
    description: Mapping[str, object],
    signatures: Mapping[str, object] | None = None,
) -> None:
    """Writes a SavedModel of stock ops, with a description of the program for the device.

    Args:
        root: What it holds.
        path: Its folder, which does not exist.
        description: The description.
        signatures: Its signatures.

    Raises:
        ValueError: A function uses a table or a variable that the file would not hold.
    """
    try:
        tf.saved_model.save(root, str(path), signatures=signatures)
    except AssertionError as error:
        if _UNTRACKED not in str(error):
            raise
        raise ValueError(
            "A step of the exported model uses a table or a variable that its file would not "
            "hold. Make it an attribute of a tf.Module or Keras model that the step is a "
            "method of, or a variable that the step closes over."
        ) from error
    write_stock_graph(path / _GRAPH)
    (path / DESCRIPTION).parent.mkdir()
    (path / DESCRIPTION).write_text(json.dumps(description, indent=1))


def write_stock_graph(path: Path) -> None:
    """Replaces the tile ops in the file of a SavedModel's graph by stock ops."""
    model = SavedModelProto.FromString(path.read_bytes())
    has_tile_ops = False
    for graph in model.meta_graphs:
        for function in graph.graph_def.library.function:
            has_tile_ops |= make_stock(function)
        ops = graph.meta_info_def.stripped_op_list.op
        stock_ops = [definition for definition in ops if not is_tile_op(definition.name)]
        graph.meta_info_def.stripped_op_list.ClearField("op")
        ops.extend(stock_ops)
    if has_tile_ops:
        path.write_bytes(model.SerializeToString(deterministic=True))
        path.with_name(_FINGERPRINT).unlink(missing_ok=True)  # It is of the graph before.


def _description(parts: ProgramParts) -> dict[str, Any]:
    """Returns what the device needs to know of a program that has been traced."""
    deployment = parts.served.deployment()
    return {
        "format": 1,
        "iterations": parts.served.iterations,
        "inputs": [
            {"name": spec.name, "shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for spec in parts.served.signature.specs
        ],
        "pipeline": deployment and pipeline_loader.described(deployment),
    }
