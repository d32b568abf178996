"""Names of hosts, as one word or one file lists them."""

from __future__ import annotations

import re
from pathlib import Path

from ipu_tf.base.user_objects import UsageError

_BETWEEN_HOSTS = re.compile(r",(?![^\[]*\])")
_RANGE = re.compile(r"([^\[\]]*)\[([0-9,-]+)\]([^\[\]]*)")


def read_hosts(text: str) -> tuple[str, ...]:
    """Returns the hosts of a list such as "a,b" or "host[0-2,4]".

    Raises:
        UsageError: A host is named twice or not at all, or a bracket is not understood.
    """
    hosts = tuple(host for word in _BETWEEN_HOSTS.split(text) for host in _hosts_of(word.strip()))
    if not all(hosts) or len(set(hosts)) < len(hosts):
        raise UsageError(
            "--host must name each host once, as in 'a,b' or 'host[0-2,4]'; --num-instances says "
            f"how many instances there are. Received: {text!r}."
        )
    return hosts


def read_host_file(path: Path) -> tuple[str, ...]:
    """Returns the hosts of a file with a line for each; a line may go on after its first word.

    Raises:
        UsageError: The file cannot be read, or has no hosts.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the hosts in {path}: {error.strerror}.") from error
    words = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    if not words:
        raise UsageError(f"{path} names no host: it needs a line for each.")
    return read_hosts(",".join(words))


def _hosts_of(word: str) -> list[str]:
    """Returns the hosts of one word: "host[0-2,4]" are four."""
    if "[" not in word and "]" not in word:
        return [word]
    match = _RANGE.fullmatch(word)
    if match is None:
        raise UsageError(
            "--host takes numbers in one pair of brackets, as in 'host[0-2,4]'. "
            f"Received: {word!r}."
        )
    before, numbers, after = match.groups()
    return [f"{before}{number}{after}" for part in numbers.split(",") for number in _range(part)]


def _range(part: str) -> list[str]:
    """Returns the numbers of "0-2" or "4", as wide as they are written."""
    first, _, last = part.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
        raise UsageError(f"--host: '{part}' is no range of numbers, such as 0-2.")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
