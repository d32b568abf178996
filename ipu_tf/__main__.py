"""`python -m ipu_tf`: the command line, also where the console script is not installed."""

import sys

from ipu_tf.cli import main

if __name__ == "__main__":
    sys.exit(main())
