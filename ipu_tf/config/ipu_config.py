"""`IPUConfig`, the root of the option tree."""

from __future__ import annotations

from ipu_tf.config import system_configuration as system
from ipu_tf.config.option_tree import OptionTree


class IPUConfig(OptionTree):
    """All options of the simulated IPU system.

    Options are checked for their type when they are set and for their value when the
    configuration is installed. docs/config.md lists them.

    Example:
        ```python
        config = IPUConfig()
        config.auto_select_ipus = 1
        config.matmuls.poplar_options["partialsType"] = "half"
        config.configure_ipu_system()
        ```
    """

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Validates this configuration and installs it for the process.

        Args:
            device: The CPU device beside the IPUs; it makes no difference here.

        Raises:
            Exception: Options contradict each other or have an invalid value; see docs/config.md.
        """
        system.configure_ipu_system(self, device)
