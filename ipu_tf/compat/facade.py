"""Modules with the vendor's names: their attributes are looked up here when they are used."""

import importlib
import importlib.util
from types import ModuleType

from ipu_tf.compat.modules import (
    GENERATED_OPS,
    SHOWS_ITS_MODULES,
    homes,
    is_for_tf_keras,
    short_name,
    vendor_modules,
)


class VendorModule(ModuleType):
    """A module of the vendor's package, filled from the modules here that mirror it.

    A name of the vendor's interface that does not exist here is a `Missing`, which raises when it
    is used; any other name raises an `AttributeError`.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._looked_up(name)
        setattr(self, name, value)  # Later look-ups do not come here.
        return value

    def _looked_up(self, name: str) -> object:
        short = short_name(self.__name__)
        assert short is not None
        if f"{short}.{name}" in vendor_modules():
            return importlib.import_module(f"{self.__name__}.{name}")
        for module in self._homes(short):
            if hasattr(module, name):
                return getattr(module, name)
        # Here, because few scripts come to them.
        from ipu_tf.compat.missing import OF_THE_PLUGIN, Missing, reason
        from ipu_tf.compat.vendor_api import full_name

        dotted = full_name(short, name)
        if dotted is None and short.startswith(GENERATED_OPS):
            return Missing(f"{short}.{name}", OF_THE_PLUGIN)
        if dotted is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        listed_in = dotted.rpartition(".")[0]
        package = listed_in.rpartition(".")[0]
        packages = (listed_in, package) if package in SHOWS_ITS_MODULES else (listed_in,)
        for module in (home for name in packages for home in self._homes(name)):
            if hasattr(module, name):
                return getattr(module, name)
        return Missing(dotted, reason(dotted))

    def _homes(self, short: str) -> list[ModuleType]:
        return existing_homes(short, tf_keras=is_for_tf_keras(self.__name__))

    def __dir__(self) -> list[str]:
        short = short_name(self.__name__)
        assert short is not None
        from ipu_tf.compat.vendor_api import names_below

        public = (name for home in self._homes(short) for name in dir(home))
        return sorted({*(name for name in public if name[0] != "_"), *names_below(short)})


def existing_homes(short: str, *, tf_keras: bool = False) -> list[ModuleType]:
    """Returns the modules here that have the names of a vendor's module; see `homes`."""
    names = homes(short, tf_keras=tf_keras)
    return [importlib.import_module(name) for name in names if _exists(name)]


def _exists(name: str) -> bool:
    package = name.rpartition(".")[0]
    if package and not _exists(package):
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # The parent is a module, not a package.
        return False
