"""The configuration that is installed in this process."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ipu_tf.config.device import DeviceConfiguration
from ipu_tf.config.flags import poplar_flags
from ipu_tf.config.option_tree import OptionTree
from ipu_tf.config.resolve import TRACE_VARIABLE, idle_options, resolve
from ipu_tf.processes.instances import instances

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installation:
    config: OptionTree  # a private copy
    device: DeviceConfiguration

    def equals(self, other: _Installation) -> bool:
        return self.device == other.device and self.config.to_dict() == other.config.to_dict()


@dataclass(slots=True)
class _System:
    """The state of the process. The lock is never held while callbacks run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    installation: _Installation | None = None
    callbacks: list[Callable[[], None]] = field(default_factory=list)

    def notify(self) -> None:
        with self.lock:
            callbacks = tuple(self.callbacks)
        for callback in callbacks:
            callback()


_SYSTEM = _System()
_LOAN: contextvars.ContextVar[DeviceConfiguration | None] = contextvars.ContextVar(
    "borrowed device configuration", default=None
)


def configure_ipu_system(
    config: OptionTree, device: str = "cpu", reset_configuration: bool = True
) -> None:
    """Validates a configuration and installs it for the process.

    Installing a configuration equal to the present one changes nothing. Another one replaces it,
    with a warning, and programs compiled for the old one are dropped.

    Args:
        config: The configuration. Later changes to it have no effect until it is installed again.
        device: The CPU device beside the IPUs; it makes no difference here.
        reset_configuration: Whether another configuration may be replaced.

    Raises:
        TypeError: `config` is not an `IPUConfig`, or holds a value of the wrong type.
        RuntimeError: Another configuration is installed and `reset_configuration` is False. Where
            TensorFlow is loaded, it is also a `tf.errors.FailedPreconditionError`. Or another
            launcher than poprun started several processes.
        Exception: The configuration is invalid; see docs/config.md. The present one stays.
    """
    instances()  # Refuses processes that another launcher started.
    device_configuration = resolve(config)
    new = _Installation(config=copy.deepcopy(config), device=device_configuration)
    with _SYSTEM.lock:
        old = _SYSTEM.installation
        if old is not None and old.equals(new):
            return
        if old is not None and not reset_configuration:
            raise _forbidden_replacement()
        _SYSTEM.installation = new
    if old is not None:
        _log.warning("Resetting existing IPU configuration: its compiled programs are dropped.")
    _log_what_is_ignored(new)
    _SYSTEM.notify()


def _forbidden_replacement() -> RuntimeError:
    """Returns the error of a configuration that may not replace the installed one.

    Configurations do without TensorFlow, so it is one of TensorFlow's errors only where a script
    has loaded it, and may therefore catch these.
    """
    message = (
        "An IPU system with another configuration is already configured. Call "
        "reset_ipu_configuration() first, or leave reset_configuration at True. "
        "Received: reset_configuration=False."
    )
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return RuntimeError(message)
    bases = (tensorflow.errors.FailedPreconditionError, RuntimeError)
    error: RuntimeError = type("AlreadyConfiguredError", bases, {})(None, None, message)
    return error


def reset_ipu_configuration() -> None:
    """Drops the installed configuration and the programs compiled for it, if there is one."""
    with _SYSTEM.lock:
        old, _SYSTEM.installation = _SYSTEM.installation, None
    if old is not None:
        _SYSTEM.notify()


@contextlib.contextmanager
def tracing_numerics() -> Iterator[None]:
    """Turns `simulator.trace_numerics` on in all configurations that are installed inside, and in
    the default one."""
    before = os.environ.get(TRACE_VARIABLE)
    os.environ[TRACE_VARIABLE] = "1"
    _default.cache_clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ[TRACE_VARIABLE]
        _default.cache_clear()


@contextlib.contextmanager
def configuration_as_before() -> Iterator[None]:
    """Puts the installed configuration back when the context ends."""
    with _SYSTEM.lock:
        before = _SYSTEM.installation
    try:
        yield
    finally:
        with _SYSTEM.lock:
            after, _SYSTEM.installation = _SYSTEM.installation, before
        if after is not before:
            _SYSTEM.notify()


def get_ipu_config(session: None = None) -> list[OptionTree]:
    """Returns a copy of the installed configuration for every device.

    Args:
        session: Must be None: there are no sessions in eager execution.

    Raises:
        RuntimeError: Nothing is configured.
        AssertionError: A session was given.
    """
    if session is not None:
        raise AssertionError(
            f"get_ipu_config takes no session in eager execution. Received: {session!r}."
        )
    with _SYSTEM.lock:
        installation = _SYSTEM.installation
    if installation is None:
        raise RuntimeError(
            "No IPU devices configured. Call configure_ipu_system() on an IPUConfig first."
        )
    return [copy.deepcopy(installation.config) for _ in installation.device.num_ipus]


def engine_options() -> Mapping[str, object]:
    """Returns the installed `compilation_poplar_options`, empty where nothing is configured."""
    with _SYSTEM.lock:
        installation = _SYSTEM.installation
    return {} if installation is None else dict(installation.config.compilation_poplar_options)


@contextlib.contextmanager
def borrowed_device(device: DeviceConfiguration) -> Iterator[None]:
    """Makes `device_configuration()` return `device` only in this context.

    The installed configuration does not change, for other threads and afterwards.

    Args:
        device: The device to compile for meanwhile.
    """
    token = _LOAN.set(device)
    try:
        yield
    finally:
        _LOAN.reset(token)


def device_configuration() -> DeviceConfiguration:
    """Returns the installed device configuration, or the default one with a single IPU."""
    loan = _LOAN.get()
    if loan is not None:
        return loan
    with _SYSTEM.lock:
        installation = _SYSTEM.installation
    return _default() if installation is None else installation.device


def is_configured() -> bool:
    """Returns whether a system is configured: without one, the default configuration applies."""
    with _SYSTEM.lock:
        return _LOAN.get() is not None or _SYSTEM.installation is not None


def on_reset(callback: Callable[[], None]) -> Callable[[], None]:
    """Registers a function that is called after the configuration has changed or was dropped.

    Args:
        callback: Takes nothing. It runs in the thread that changed the configuration and may
            itself ask for the configuration.

    Returns:
        A function that takes the registration back; calling it twice does no harm.
    """
    with _SYSTEM.lock:
        _SYSTEM.callbacks.append(callback)

    def unregister() -> None:
        with _SYSTEM.lock:
            if callback in _SYSTEM.callbacks:
                _SYSTEM.callbacks.remove(callback)

    return unregister


@functools.cache
def _default() -> DeviceConfiguration:
    return resolve(OptionTree())


def _log_what_is_ignored(installation: _Installation) -> None:
    device = installation.device
    for name, condition in idle_options(installation.config).items():
        _log.warning("%s does nothing without %s: set both, or neither.", name, condition)
    if device.without_effect:
        _log.info(
            "These options are accepted without effect on the simulated IPU: %s.",
            ", ".join(device.without_effect),
        )
    unknown = poplar_flags().unknown
    if unknown:
        _log.warning("Unknown flags in TF_POPLAR_FLAGS are ignored: %s.", " ".join(unknown))
