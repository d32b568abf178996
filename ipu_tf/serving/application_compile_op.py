"""Writes programs with their loops and feeds to files, which `embedded_runtime` runs."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tensorflow as tf

from ipu_tf import config
from ipu_tf.feeds import outfeed_queue
from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.programs.program import Program
from ipu_tf.runtime import hooks
from ipu_tf.runtime.tracer import Tracer
from ipu_tf.serving import application_graph, tracking
from ipu_tf.serving.saved_program import save_with_description
from ipu_tf.serving.served_step import Predictor, strategy_in_force

_SUFFIX = ".ipu_exec"


def experimental_application_compile_op(
    func: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Compiles a program, and writes it to a file that `embedded_runtime_start` runs.

    The program reads an `IPUInfeedQueue`, or none, and writes an `IPUOutfeedQueue`. When it runs
    from the file, each call gives it an element for the infeed and takes one from the outfeed. A
    program without feeds runs at its start, and `RuntimeContext.start_output` has its results.
    In a graph of TensorFlow 1 it is compiled at once, too, and has no variables of the graph.

    Args:
        func: The program, such as a function that calls `loops.repeat`.
        inputs: Its arguments: tensors, whose values `embedded_runtime_start` gives anew.
        output_path: The file; None for a temporary one.
        freeze_variables: Whether variables keep the values of now. Otherwise they are further
            inputs of `embedded_runtime_start`, by their names.
        name: Name of the program.

    Returns:
        The path of the file, a scalar string.

    Raises:
        NotImplementedError: The program uses variables of a graph of TensorFlow 1.
        ValueError: The program writes several outfeeds, or reads several infeeds, or one for no
            outfeed.
        IPUOutOfMemoryError: The program does not fit on a tile.
    """
    values = [tf.convert_to_tensor(value) for value in inputs or ()]
    specs = [
        tf.TensorSpec(value.shape, value.dtype, input_name)
        for value, input_name in zip(values, _input_names(func, len(values)), strict=True)
    ]
    path = Path(os.fspath(output_path)) if output_path is not None else _temporary_path()
    in_graph = not tf.executing_eagerly()
    _compile_to(path, _without_variables(func) if in_graph else func, specs, freeze_variables, name)
    return tf.constant(str(path))


@eager_mode()  # In a graph of TensorFlow 1, too, the program is a function of its own.
def _compile_to(
    path: Path,
    func: Callable[..., Any],
    specs: list[tf.TensorSpec],
    freeze_variables: bool,
    name: str | None,
) -> None:
    """Compiles a program for inputs, and writes it to a file."""
    predictor = Predictor(func, 1)
    if name:
        predictor.name = name
    strategy = strategy_in_force()
    on_device = tf.function(
        lambda *args: strategy.run(predictor.predict_step, args=args), autograph=False
    )
    on_device.get_concrete_function(*specs)  # Compiles it; errors of the compiler are raised here.
    root = tf.Module(name="ipu_tf_application")
    root.program = tf.function(_traced(predictor), input_signature=specs, autograph=False)
    concrete = root.program.get_concrete_function()
    root.parameters = [] if freeze_variables else list(concrete.graph.variables)
    root.tracked = tracking.resources_of((root.program,), (func,))
    feeds = application_graph.feeds_of(application_graph.functions_of(concrete))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "program"
        description = {
            "format": 1,
            "application": True,
            "start_inputs": _start_inputs(specs, root.parameters),
            "output_shapes": _output_shapes(feeds.outfeed),
        }
        save_with_description(root, folder, description)
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.rglob("*")):
                archive.write(file, file.relative_to(folder))


def _without_variables(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a program of a graph of TensorFlow 1 that refuses to make variables."""

    def refuse(next_creator: Any, **options: Any) -> NoReturn:
        del next_creator
        raise NotImplementedError(
            "experimental_application_compile_op: a program of a graph of TensorFlow 1 is compiled "
            "before a session gives its variables their values, so it cannot use them. Pass them "
            "to the program as `inputs`, or make tf.Variables in eager mode. "
            f"Received: a program with the variable {options.get('name')!r}."
        )

    @functools.wraps(func)
    def program(*args: Any) -> Any:
        with tf.variable_creator_scope(refuse):
            return func(*args)

    return program


def _traced(predictor: Predictor) -> Callable[..., Any]:
    """Returns a program as one of the device, for pipelines run nowhere else."""

    def program(*args: Any) -> Any:
        program = Program(name=predictor.name, steps_per_execution=1)
        with hooks.tracing(Tracer(program, config.device_configuration())):
            return predictor.predict_step(*args)

    return program


def _start_inputs(
    specs: Sequence[tf.TensorSpec], parameters: Sequence[tf.Variable]
) -> list[dict[str, Any]]:
    """Returns the description of the inputs of a start: arguments, then variables."""
    named = [(spec.name, spec) for spec in specs]
    named += [(variable.name.partition(":")[0], variable) for variable in parameters]
    return [
        {"name": name, "shape": value.shape.as_list(), "dtype": value.dtype.name}
        for name, value in named
    ]


def _temporary_path() -> Path:
    handle, path = tempfile.mkstemp(suffix=_SUFFIX)
    os.close(handle)
    return Path(path)


def _input_names(func: Callable[..., Any], count: int) -> list[str]:
    try:
        names = list(inspect.signature(getattr(func, "python_function", func)).parameters)
    except (TypeError, ValueError):
        names = []
    return [names[n] if n < len(names) else f"input_{n}" for n in range(count)]


def _output_shapes(number: int | None) -> list[list[int]] | None:
    """Returns the shapes of the tensors of an outfeed, None where there is no outfeed any more."""
    outfeed = None if number is None else outfeed_queue.outfeed_of(number)
    if outfeed is None:
        return None
    return [spec.shape.as_list() for spec in tf.nest.flatten(outfeed.element_spec)]
