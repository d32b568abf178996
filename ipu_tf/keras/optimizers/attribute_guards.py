"""Attributes of optimizers that cannot be set, or only before the optimizer is built."""

from __future__ import annotations

import dataclasses
from typing import Any


class ReadOnly(property):
    """A property that raises an error with its name when it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, instance: Any, value: Any) -> None:
        raise ValueError(f"{self._name} is a read only property. Received: {self._name}={value!r}.")


class Setting:
    """A field of the frozen `settings` of an optimizer, which may be set until it is built."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Any, owner: type | None = None) -> Any:
        return self if optimizer is None else getattr(optimizer.settings, self._name)

    def __set__(self, optimizer: Any, value: Any) -> None:
        """Sets the field and calls `optimizer.reset`.

        Raises:
            ValueError: The optimizer is built, or the value breaks a rule.
        """
        if optimizer.built:
            raise ValueError(
                f"{self._name} of optimizer '{optimizer.name}' cannot be set any more: the "
                "optimizer is built, and programs have the value in them. Make a new optimizer. "
                f"Received: {self._name}={value!r}."
            )
        optimizer.settings = dataclasses.replace(optimizer.settings, **{self._name: value})
        optimizer.reset()
