"""The state of each name of the vendor's interface here."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ipu_tf.compat.missing import REASONS, Missing, reason
from ipu_tf.compat.modules import ROOTS, vendor_modules
from ipu_tf.compat.vendor_api import VendorName, vendor_api
from ipu_tf.config import IPUConfig
from ipu_tf.config.declaration import option_declarations

WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(
    {
        "ipu.scopes.frontend_attribute": "Attributes are hints for another compiler.",
        "ipu.scopes.ipu_jit_scope": "A program is compiled as a whole.",
        "ipu.sharding.enable_sharded_gradient_tape": "Gradients are on the IPUs of their forward "
        "operations.",
        "ipu.utils.move_variable_initialization_to_cpu": "Variables are initialised on the host.",
    }
)
"""Names that are accepted and do nothing, and why. Options say it in their declarations."""

_OPTIONS = "ipu.config.IPUConfig."


class State(enum.Enum):
    """The effect of a name of the interface here."""

    WORKS = "works"
    WITHOUT_EFFECT = "accepted without effect"
    RAISES = "raises"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameState:
    """The state of a name.

    Attributes:
        vendor_name: The name in the interface.
        state: Its effect here.
        why: Why it does not work, and the way out; empty where it works.
    """

    vendor_name: VendorName
    state: State
    why: str = ""


def states() -> list[NameState]:
    """Returns the state of every name, in the order of the interface.

    The vendor's module names have to be installed.

    Raises:
        KeyError: A name neither exists here nor has a reason.
    """
    effects = {name: option.effect for name, option in option_declarations(IPUConfig)}
    return [_state(entry, effects) for entry in vendor_api().values()]


def _state(entry: VendorName, effects: Mapping[str, str]) -> NameState:
    if entry.kind == "option":
        if effects[entry.name.removeprefix(_OPTIONS)]:
            return NameState(vendor_name=entry, state=State.WORKS)
        return NameState(vendor_name=entry, state=State.WITHOUT_EFFECT, why="See the options.")
    if isinstance(looked_up(entry.name), Missing):
        return NameState(vendor_name=entry, state=State.RAISES, why=f"{reason(entry.name)}.")
    if entry.name in WITHOUT_EFFECT:
        why = WITHOUT_EFFECT[entry.name]
        return NameState(vendor_name=entry, state=State.WITHOUT_EFFECT, why=why)
    return NameState(vendor_name=entry, state=State.WORKS)


def looked_up(name: str) -> object:
    """Returns the object of a dotted name, found as a script finds it, or a `Missing`.

    Raises:
        AttributeError: A class that exists has no such member, and no reason says why.
    """
    parts = name.split(".")
    modules = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    module = next(module for module in modules if module in vendor_modules())
    place: object = importlib.import_module(imported_name(module))
    for part in parts[module.count(".") + 1 :]:
        if isinstance(place, Missing):
            return place
        if name in REASONS and not hasattr(place, part):
            return Missing(name, reason(name))
        # Attributes that the initializer sets are declared in the class.
        annotations = inspect.get_annotations(place) if isinstance(place, type) else {}
        place = annotations[part] if part in annotations else getattr(place, part)
    return place


def imported_name(short: str) -> str:
    """Returns the name that scripts import of a module with that short name."""
    for root, short_root in ROOTS.items():
        if short == short_root or short.startswith(short_root + "."):
            return root + short[len(short_root) :]
    raise ValueError(f"no module of the vendor's is called {short!r}")
