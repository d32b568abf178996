"""A process that estimates points: reads one a line from its input, writes an outcome a line.

The first line names the model and the folders of modules. Output that the user's code prints
goes to the error output.
"""

from __future__ import annotations

import json
import os
import sys

IN_WORKER = "IPU_TF_SWEEP_WORKER"
"""Environment variable of workers: a script that they import must not start a sweep itself."""


def main() -> None:
    """Estimates the points that come in until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    head = json.loads(sys.stdin.readline())
    sys.path[:] = head["path"]

    from ipu_tf.base import codec
    from ipu_tf.base.loading import loading
    from ipu_tf.base.user_objects import UsageError
    from ipu_tf.internals.deferred_modules import deferred_modules
    from ipu_tf.sweep.point import Outcome, Point, encoded

    with loading(), deferred_modules():
        from ipu_tf.sweep.evaluate import evaluate, model_of

    failure = ""
    try:
        model = model_of(head["model"])
    except (UsageError, Exception) as error:
        failure = f"{type(error).__name__}: {error}"
    for line in sys.stdin:
        point = codec.decode(Point, json.loads(line))
        outcome = (
            Outcome(error=failure) if failure else evaluate(model, point, training=head["training"])
        )
        answers.write(json.dumps(encoded(outcome)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
