"""Writes programs with their loops and feeds to files, which `embedded_runtime` runs."""

from __future__ import annotations

import inspect
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_tf import config
from ipu_tf.feeds import outfeed_queue
from ipu_tf.internals.graphs import graph_of_session
from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.programs.program import Program
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.serving import application_graph, graph_program, tracking
from ipu_tf.serving.program_files import save_with_description
from ipu_tf.serving.serving_step import Predictor, strategy_in_force

_SUFFIX = ".ipu_exec"


def experimental_application_compile_op(
    func: Callable[..., object],
    inputs: Sequence[tf.Tensor] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Compiles a program, and writes it to a file that `embedded_runtime_start` runs.

    The program reads an `IPUInfeedQueue`, writes an `IPUOutfeedQueue`, or both. When it runs
    from the file, each call gives it an element for the infeed and takes one from the outfeed. A
    program without feeds runs at its start, and `RuntimeContext.start_output` has its results.

    In a graph of TensorFlow 1 it is compiled at once, too, except if it freezes variables: a
    session that runs the returned path compiles it with the values that they have then. Inputs
    that are constants of the graph become part of the program.

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
        ValueError: The program writes several outfeeds, or reads several infeeds, or a tensor of a
            graph of TensorFlow 1 that is none of its inputs.
        IPUOutOfMemoryError: The program does not fit on a tile.
    """
    path = Path(os.fspath(output_path)) if output_path is not None else _temporary_path()
    values = [tf.convert_to_tensor(value) for value in inputs or ()]
    specs = [
        tf.TensorSpec(value.shape, value.dtype, input_name)
        for value, input_name in zip(values, _input_names(func, len(values)), strict=True)
    ]
    if graph_of_session() is not None:
        return _compile_in_graph(path, func, values, specs, freeze_variables, name)
    _compile_to(path, func, specs, freeze_variables, name)
    return tf.constant(str(path))


def _compile_in_graph(
    path: Path,
    func: Callable[..., Any],
    values: Sequence[tf.Tensor],
    specs: Sequence[tf.TensorSpec],
    freeze_variables: bool,
    name: str | None,
) -> tf.Tensor:
    """Compiles a program of a graph of TensorFlow 1; returns the path of its file."""
    arguments = [
        value if tf.get_static_value(value) is not None else spec
        for value, spec in zip(values, specs, strict=True)
    ]
    input_specs = [one for one in arguments if isinstance(one, tf.TensorSpec)]
    program = graph_program.traced_in_graph(func, arguments, name or _name_of(func))

    def write(*frozen: Any) -> bytes:
        _compile_graph_program(path, program, input_specs, frozen if freeze_variables else None)
        return str(path).encode()

    with tf.device(None):  # The host compiles.
        if not (freeze_variables and program.handles):
            return tf.constant(write())
        result = tf.numpy_function(write, program.values(), tf.string, name="application_compile")
        return tf.ensure_shape(result, [])


@eager_mode()
def _compile_graph_program(
    path: Path,
    program: graph_program.GraphProgram,
    specs: list[tf.TensorSpec],
    values: Sequence[Any] | None,
) -> None:
    """Compiles a traced program of a graph, with values of its variables to keep, or None."""
    function, variables = program.eager(values)
    _compile_to(path, function, specs, values is not None, program.name, variables)


@eager_mode()  # Called in a function, too, the program is a function of its own.
def _compile_to(
    path: Path,
    func: Callable[..., Any],
    specs: list[tf.TensorSpec],
    freeze_variables: bool,
    name: str | None,
    variables: Sequence[tf.Variable] | None = None,
) -> None:
    """Compiles a program for inputs, and writes it to a file.

    Args:
        path: The file.
        func: The program.
        specs: Its inputs.
        freeze_variables: Whether variables keep the values of now.
        name: Name of the program.
        variables: Its variables in their order; None for those that its trace reads.
    """
    predictor = Predictor(func, 1)
    if name:
        predictor.name = name
    strategy = strategy_in_force()
    on_device = tf.function(
        lambda *args: strategy.run(predictor.predict_step, args=args), autograph=False
    )
    on_device.get_concrete_function(*specs)  # Compiles it; errors of the compiler are raised here.
    root = tf.Module(name="ipu_tf_application")
    root.program = tf.function(
        _program_on_device(predictor), input_signature=specs, autograph=False
    )
    concrete = root.program.get_concrete_function()
    parameters = list(concrete.graph.variables if variables is None else variables)
    root.parameters = [] if freeze_variables else parameters
    root.tracked = (
        parameters if variables is not None else tracking.resources_of((root.program,), (func,))
    )
    feeds = application_graph.feeds_of(application_graph.functions_of(concrete))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "program"
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


def _program_on_device(predictor: Predictor) -> Callable[..., Any]:
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
    pairs = [(spec.name, spec) for spec in specs]
    pairs += [(variable.name.partition(":")[0], variable) for variable in parameters]
    return [
        {"name": name, "shape": value.shape.as_list(), "dtype": value.dtype.name}
        for name, value in pairs
    ]


def _name_of(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__name__", "application")).strip("<>")


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
