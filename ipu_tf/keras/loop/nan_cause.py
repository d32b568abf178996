"""What `keras.callbacks.TerminateOnNaN` says: the operation behind the NaN that ended `fit`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ipu_tf import config
from ipu_tf.internals import patches
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.strategy import IPUStrategy

_HOW_TO_TRACE = (
    "To see which operation made it, set `simulator.trace_numerics = True` in the IPUConfig before "
    "`configure_ipu_system()`, or run the script by `ipu-tf run --trace-numerics`."
)
_NOT_FOUND = (
    "`simulator.trace_numerics` found no operation that made it; the log names programs that "
    "cannot be traced, and docs/nonfinite.md says what is covered."
)

_OnBatchEnd = Callable[..., None]


def cause_of_nan(model: StatefulModel) -> str:
    """Returns the first fault of a model's programs as a message, or how to find it.

    Overflows that loss scaling handles, and gradients that become 0, are no cause of a NaN.
    """
    programs = model.distribute_strategy.report(insights=False).programs
    own = [one for one in programs if one.name.startswith(f"{model.name}.")]
    faults = (fault for program in own for fault in program.nonfinite)
    cause = next((one for one in faults if not one.is_harmless), None)
    if cause is not None:
        return str(cause)
    return _NOT_FOUND if config.device_configuration().trace_numerics else _HOW_TO_TRACE


def naming_the_cause() -> contextlib.AbstractContextManager[None]:
    """Lets `TerminateOnNaN` name the operation in its message, or in its error."""
    return patches.installed({patches.NAN_STOPS: with_cause})


def with_cause(stock: _OnBatchEnd) -> _OnBatchEnd:
    """Makes the end of a batch of a `TerminateOnNaN` name the operation."""

    def on_batch_end(callback: Any, batch: int, logs: Logs = None) -> None:
        model = callback.model
        if not isinstance(model.distribute_strategy, IPUStrategy):
            stock(callback, batch, logs)
            return
        has_stopped = model.stop_training
        try:
            stock(callback, batch, logs)
        except RuntimeError as error:
            raise RuntimeError(f"{error} {cause_of_nan(model)}") from None
        if model.stop_training and not has_stopped:
            print(cause_of_nan(model), flush=True)

    return on_batch_end
