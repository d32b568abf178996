"""The command `poprun`, also `python -m ipu_tf.poprun`: starts the instances of a job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ipu_tf import __version__
from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.launch.command import DESCRIPTION, launch
from ipu_tf.processes.launch.options import add_arguments, join_words

__all__ = ["main"]

_BAD_INPUT = 2


def main(words: Sequence[str] | None = None) -> int:
    """Runs `poprun`.

    Args:
        words: The words after the program's name; those of the process by default.

    Returns:
        The status of the instance that failed first, 0 if none did, or 2 for bad input.
    """
    parser = argparse.ArgumentParser(prog="poprun", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"poprun of ipu_tf {__version__}")
    add_arguments(parser)
    try:
        return launch(parser.parse_args(join_words(sys.argv[1:] if words is None else words)))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
