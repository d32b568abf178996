"""Adapts libraries to earlier spellings for a while."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipu_tf.compat.spellings.spelling import Call, Notices, Notify, Rewrite, Spelling
from ipu_tf.internals.patches import Patch, Wrap, installed


@contextlib.contextmanager
def adapted_methods(spellings: Sequence[Spelling], notices: Notices) -> Iterator[None]:
    """Replaces the methods that the spellings name, and opens their contexts, for a while.

    Args:
        spellings: The spellings.
        notices: Logs the first use of each.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(installed(replacements(spellings, notices)))
        for spelling in spellings:
            if spelling.context is not None:
                stack.enter_context(spelling.context(notices.of(spelling)))
        yield


def replacements(spellings: Sequence[Spelling], notices: Notices) -> Mapping[Patch, Wrap]:
    """Returns the factory of each method's replacement.

    The rewrites of all spellings of a method make one replacement, around those of the spellings
    that wrap the method.
    """
    rewrites: dict[Patch, list[tuple[Rewrite, Notify]]] = defaultdict(list)
    wraps: dict[Patch, Wrap] = {}
    for spelling in spellings:
        notify = notices.of(spelling)
        for patch, rewrite in spelling.rewrites.items():
            rewrites[patch].append((rewrite, notify))
        for patch, wrap in spelling.wraps.items():
            wraps[patch] = _around(wraps.get(patch), wrap(notify))
    for patch, rewrites_of_patch in rewrites.items():
        wraps[patch] = _around(wraps.get(patch), _rewriting(rewrites_of_patch))
    return {patch: _like_stock(wrap) for patch, wrap in wraps.items()}


def _around(inner: Wrap | None, outer: Wrap) -> Wrap:
    """Returns the factory of a method in which the outer replacement calls the inner one."""
    return outer if inner is None else lambda stock: outer(inner(stock))


def _rewriting(rewrites: Sequence[tuple[Rewrite, Notify]]) -> Wrap:
    """Returns the factory of a method that rewrites its calls, then calls the stock one."""

    def wrap(stock: Any) -> Any:
        def method(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
            call = Call(owner, args, kwargs)
            for rewrite, notify in rewrites:
                if rewrite(call):
                    notify()
            return stock(owner, *call.args, **call.kwargs)

        return method

    return wrap


def _like_stock(wrap: Wrap) -> Wrap:
    """Returns a factory whose methods have the names and signatures of the stock ones.

    Keras reads the signatures of initializers, without those of the functions that they wrap, for
    the configurations of layers.
    """

    def wrap_and_name(stock: Any) -> Any:
        method: Any = wrap(stock)
        if inspect.isfunction(stock) and not isinstance(method, property):
            functools.update_wrapper(method, stock)
            if stock.__name__ == "__init__":
                method.__signature__ = inspect.signature(stock)
        return method

    return wrap_and_name
