"""Keras callbacks that report what a model costs on the simulated IPU."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import keras
import tensorflow as tf

from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.report_formats import FORMATS, check_formats, write_formats
from ipu_tf.programs.program import Program
from ipu_tf.strategy import IPUStrategy

__all__ = ["IPUReport"]

SCALARS = "scalars"
"""The format for TensorBoard's charts; the others are those of report files."""

_LOG = logging.getLogger(__name__)
_RUN = "ipu"
_SCALAR_DATA = 1  # DATA_CLASS_SCALAR of tensorflow/core/framework/summary.proto


class IPUReport(keras.callbacks.Callback):
    """Writes the report of a model's strategy when training, evaluation or prediction ends.

    With the format "scalars" the modelled cycles, seconds, samples a second, utilisation and tile
    memory of every program of the model are charts in TensorBoard, in the run "ipu", beside those
    of `keras.callbacks.TensorBoard` with the same folder. All are modelled; they change only if the
    program does, such as after a batch of another size.

    A host timeline is part of the report if the strategy was made with `profile=True`.

    Args:
        log_dir: The folder; made if it does not exist. A report there is replaced.
        formats: Any of "json", "text", "html", "perfetto", "xplane", "csv" and "scalars".

    If a file cannot be written when training ends, an error is logged and the training stays.

    Raises:
        OSError: The folder cannot be made; raised before the first step.
        ValueError: A format is unknown, or the model was not made in the scope of an
            `IPUStrategy`.

    Example:
        >>> logs = "logs"
        >>> report = ipu_tf.keras.callbacks.IPUReport(logs, formats=("html", "scalars"))
        >>> model.fit(dataset, callbacks=[keras.callbacks.TensorBoard(logs), report])
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        formats: Iterable[str] = ("json", "html", SCALARS),
    ) -> None:
        super().__init__()
        self.log_dir = Path(log_dir)
        self._formats = check_formats(formats, (*FORMATS, SCALARS))
        self._writer: tf.summary.SummaryWriter | None = None
        self._depth = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and folders of the report that have names of their own."""
        names = {"json": "report.json", "text": "report.txt", "html": "report.html"}
        return tuple(self.log_dir / names[name] for name in self._formats if name in names)

    def set_model(self, model: keras.Model) -> None:
        """Takes the model whose strategy is reported."""
        if not isinstance(model.distribute_strategy, IPUStrategy):
            raise ValueError(
                f"IPUReport reports models that are made in the scope of an IPUStrategy; model "
                f"'{model.name}' was not. Make it there, or leave the callback out. Received: "
                f"strategy {type(model.distribute_strategy).__name__}."
            )
        self.log_dir.mkdir(parents=True, exist_ok=True)  # Fails before the first step, not after.
        super().set_model(model)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, object] | None = None) -> None:
        """Writes the scalars of an epoch."""
        if SCALARS in self._formats:
            with _log_write_errors("scalars"):
                self._write_scalars(epoch)

    def on_train_begin(self, logs: Mapping[str, object] | None = None) -> None:
        """Notes that the evaluations inside are a part of training."""
        self._depth += 1

    def on_train_end(self, logs: Mapping[str, object] | None = None) -> None:
        """Writes the report."""
        self._depth -= 1
        self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def on_test_end(self, logs: Mapping[str, object] | None = None) -> None:
        """Writes the report of an evaluation on its own."""
        self._write()

    def on_predict_end(self, logs: Mapping[str, object] | None = None) -> None:
        """Writes the report of a prediction."""
        self._write()

    def _implements_train_batch_hooks(self) -> bool:
        return False  # As the next two, for `fit` and the others of tf_keras.

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    def _write(self) -> None:
        if self._depth == 0:
            report = self.model.distribute_strategy.report()
            with _log_write_errors("report"):
                write_formats(report, self.log_dir, (f for f in self._formats if f != SCALARS))

    def _write_scalars(self, epoch: int) -> None:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self.log_dir / _RUN))
        programs = self.model.distribute_strategy.report(insights=False).programs
        with self._writer.as_default(), tf.summary.record_if(True):
            for program in programs:
                if program.name.startswith(f"{self.model.name}."):
                    for name, value in _scalars(program).items():
                        _write_scalar(f"{program.name}/{name}", value, epoch)
            self._writer.flush()


@contextlib.contextmanager
def _log_write_errors(subject: str) -> Iterator[None]:
    """Logs an error of writing files, for training must not be lost to a full disk."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        _LOG.error(
            "IPUReport could not write the %s: %s. The model keeps what it learned; make room and "
            "call `model.distribute_strategy.report()` for the report.",
            subject,
            error,
        )


def _write_scalar(tag: str, value: float, step: int) -> None:
    """Writes a point of a chart; `tf.summary.scalar` would need TensorBoard itself."""
    plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin, data_class=_SCALAR_DATA)
    tf.summary.write(tag, tf.constant(value, tf.float32), step=step, metadata=metadata)


def _scalars(program: Program) -> Mapping[str, float]:
    """Returns the figures of a program that are charts; none if it is not compiled."""
    device = program.device
    if device is None:
        return {}
    shares = figures.cycle_shares(device)
    tiles = figures.tile_bytes(device.memory)
    scalars: dict[str, float] = {
        "cycles": device.cycles,
        "seconds": figures.seconds(device),
        "flop_utilisation": figures.flop_utilisation(device, program.tile_ops),
        "tile_balance": figures.tile_balance(device),
        "fullest_tile_bytes": int(tiles.max(initial=0)),
        "mean_tile_bytes": float(tiles.mean()) if tiles.size else 0.0,
        "tile_limit_bytes": device.memory.limit_bytes,
    }
    for kind in ("compute", "exchange", "sync", "host"):
        scalars[f"{kind}_cycles"] = getattr(shares, kind)
    speed = device.samples_per_second
    return scalars if speed is None else scalars | {"samples_per_second": speed}
