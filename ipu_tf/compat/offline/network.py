"""Refuses connections to other computers, whichever library asks for them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import ipaddress
import socket
import urllib.request
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlsplit

_REMOTE = frozenset({"http", "https", "ftp", "gs", "s3"})


class OfflineError(RuntimeError):
    """A script that runs offline asks for an address of another computer."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"No download of {address}: the script runs with --offline, which generates the "
            "data sets of `keras.datasets` and no other files. Download the file before into "
            "Keras' cache, or give the script its path; or run it without --offline."
        )


@contextlib.contextmanager
def without_network() -> Iterator[None]:
    """Makes `urllib`, `requests` and sockets refuse addresses of other computers inside.

    They raise an `OfflineError` that names the address. This computer may be reached, such as a
    TensorBoard on it. TensorFlow's own file systems, "gs://", are those of `file_systems`.
    """
    with contextlib.ExitStack() as stack:
        replaced(stack, urllib.request.OpenerDirector, "open", _opening)
        replaced(stack, socket, "getaddrinfo", _looking_up)
        replaced(stack, socket.socket, "connect", _connecting)
        if importlib.util.find_spec("requests") is not None:
            import requests

            replaced(stack, requests.Session, "send", _sending)
        yield


_F = TypeVar("_F", bound=Callable[..., Any])


def replaced(
    stack: contextlib.ExitStack, owner: type | ModuleType, name: str, wrap: Callable[[_F], _F]
) -> None:
    """Replaces an attribute, and puts it back when the stack ends."""
    stock, is_own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, functools.wraps(stock)(wrap(stock)))
    stack.callback(setattr, owner, name, stock) if is_own else stack.callback(delattr, owner, name)


def _opening(stock: Callable[..., Any]) -> Callable[..., Any]:
    def open(opener: Any, fullurl: Any, *arguments: Any, **options: Any) -> Any:
        _check_address(fullurl if isinstance(fullurl, str) else fullurl.full_url)
        return stock(opener, fullurl, *arguments, **options)

    return open


def _sending(stock: Callable[..., Any]) -> Callable[..., Any]:
    def send(session: Any, request: Any, **options: Any) -> Any:
        _check_address(request.url)
        return stock(session, request, **options)

    return send


def _looking_up(stock: Callable[..., Any]) -> Callable[..., Any]:
    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        _check_host(host, f"{_text(host)}:{_text(port)}")
        return stock(host, port, *arguments, **options)

    return getaddrinfo


def _connecting(stock: Callable[..., Any]) -> Callable[..., Any]:
    def connect(connection: socket.socket, address: Any) -> Any:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            _check_host(address[0], f"{address[0]}:{address[1]}")
        return stock(connection, address)

    return connect


def _check_address(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme in _REMOTE:
        _check_host(parts.hostname, address)


def _check_host(host: Any, address: str) -> None:
    if not _is_here(_text(host)):
        raise OfflineError(address)


def _is_here(host: str) -> bool:
    """Returns whether a host is this computer."""
    if host in ("", "localhost", "None", socket.gethostname()):
        return True
    try:
        number = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return number.is_loopback or number.is_unspecified


def _text(part: Any) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)
