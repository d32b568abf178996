"""The table of commands, in the order of the help."""

from __future__ import annotations

from ipu_tf.cli.compare import COMPARE
from ipu_tf.cli.compat import COMPAT
from ipu_tf.cli.completion import COMPLETION
from ipu_tf.cli.estimate import ESTIMATE
from ipu_tf.cli.info import INFO
from ipu_tf.cli.launch import LAUNCH
from ipu_tf.cli.open import OPEN
from ipu_tf.cli.poplar import POPLAR
from ipu_tf.cli.poplar_config import POPLAR_CONFIG
from ipu_tf.cli.report import REPORT
from ipu_tf.cli.run import RUN
from ipu_tf.cli.sweep import SWEEP
from ipu_tf.cli.validate import VALIDATE

COMMANDS = (
    RUN,
    LAUNCH,
    ESTIMATE,
    REPORT,
    OPEN,
    COMPARE,
    SWEEP,
    POPLAR,
    POPLAR_CONFIG,
    COMPAT,
    INFO,
    VALIDATE,
    COMPLETION,
)
