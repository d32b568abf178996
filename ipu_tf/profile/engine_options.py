"""The reports that options of Poplar's engine ask for."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

VARIABLE = "POPLAR_ENGINE_OPTIONS"

_LOG = logging.getLogger(__name__)
_DIRECTORY = "autoReport.directory"
_ALL = "autoReport.all"
_OUTPUT = "autoReport.output"
_SWITCHES: Mapping[object, bool] = {"true": True, "1": True, "false": False, "0": False}


def report_folder(configured: Mapping[str, object] = MappingProxyType({})) -> Path | None:
    """Returns the folder that reports are to be written to; None if none are wanted.

    Reports are wanted if `autoReport.all`, or one of the parts `autoReport.output...`, is true: a
    report here has all parts. `autoReport.directory` is the folder, by default the current one.

    Args:
        configured: The options that a configuration has; those of POPLAR_ENGINE_OPTIONS win.

    Raises:
        ValueError: The variable does not hold a JSON object, or a switch is neither true nor false.
    """
    options = {**configured, **_options(os.environ.get(VARIABLE, ""))}
    switches = [
        _is_on(name, value)
        for name, value in options.items()
        if name == _ALL or name.startswith(_OUTPUT)
    ]
    if not any(switches):
        return None
    strangers = [name for name in options if not _is_known(name)]
    if strangers:
        _LOG.info("Engine options without effect here: %s.", ", ".join(strangers))
    return Path(str(options.get(_DIRECTORY, ".")))


def _options(text: str) -> Mapping[str, object]:
    if not text.strip():
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{VARIABLE} must be a JSON object: {error}. Received: {text!r}."
        ) from None
    if not isinstance(options, dict):
        raise ValueError(
            f'{VARIABLE} must be a JSON object, such as {{"{_ALL}": "true"}}. Received: {text!r}.'
        )
    return options


def _is_on(name: str, value: object) -> bool:
    switch = _SWITCHES.get(str(value).lower())
    if switch is None:
        raise ValueError(
            f"{name} of {VARIABLE} or `compilation_poplar_options` takes true or false. "
            f"Received: {value!r}."
        )
    return switch


def _is_known(name: str) -> bool:
    return name in (_ALL, _DIRECTORY) or name.startswith(_OUTPUT)
