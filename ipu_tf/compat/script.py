"""The surroundings of a script of the vendor's TensorFlow."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ipu_tf.base.trial import steps_limited_to
from ipu_tf.compat.children import children_enter
from ipu_tf.compat.finder import install, installed, uninstall
from ipu_tf.compat.python_names import abstract_classes_in_collections
from ipu_tf.compat.spellings.context import spellings_of_tensorflow
from ipu_tf.compat.startup_lines import quiet_tensorflow
from ipu_tf.compat.tf_keras.context import keras_2_for_scripts, keras_3_for_scripts

_SDK = "POPLAR_SDK_ENABLED"
"""The path of the SDK; scripts without it train on the CPU."""


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Restores environment, working folder and installed configuration after what is inside."""
    from ipu_tf.config.system_configuration import configuration_as_before

    environment, folder = dict(os.environ), Path.cwd()
    try:
        with configuration_as_before():
            yield
    finally:
        os.chdir(folder)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        # `multiprocessing`, if a script was first to import it, keeps the script's module there.
        if "__mp_main__" in sys.modules:
            sys.modules["__mp_main__"] = sys.modules["__main__"]


@contextlib.contextmanager
def _sdk_variable() -> Iterator[None]:
    """Sets the variable by which scripts find out whether there are IPUs; keeps one that is set."""
    if _SDK in os.environ:
        yield
        return
    os.environ[_SDK] = str(Path(__file__).resolve().parents[1])
    try:
        yield
    finally:
        os.environ.pop(_SDK, None)


@contextlib.contextmanager
def vendor_script(
    *,
    offline: bool = False,
    max_steps: int | None = None,
    tf1: bool = False,
    keras: int = 2,
) -> Iterator[None]:
    """Runs what is inside as a script of the vendor's TensorFlow; afterwards all is as before.

    Inside, `keras` is Keras 2 by tf_keras, with the vendor's layers for it, or Keras 3 as it is.
    Processes that `multiprocessing` starts inside run as such scripts, too.

    Args:
        offline: Whether generated data takes the place of downloads.
        max_steps: The most steps of a loop; None for no limit.
        tf1: Whether TensorFlow behaves as TensorFlow 1 does, and has its names.
        keras: The Keras, 2 or 3.

    Raises:
        ValueError: `max_steps` is not positive.
    """
    was_installed = installed()
    with contextlib.ExitStack() as stack:
        options = {"offline": offline, "max_steps": max_steps, "tf1": tf1, "keras": keras}
        stack.enter_context(children_enter(vendor_script, options))
        stack.enter_context(_sdk_variable())
        stack.enter_context(quiet_tensorflow())
        install()
        if not was_installed:
            stack.callback(uninstall)
        stack.enter_context(keras_2_for_scripts() if keras == 2 else keras_3_for_scripts())
        stack.enter_context(abstract_classes_in_collections())
        stack.enter_context(spellings_of_tensorflow())
        if tf1:
            # It loads TensorFlow, which scripts of TensorFlow 2 load themselves.
            from ipu_tf.compat.tensorflow1.context import tensorflow_1

            stack.enter_context(tensorflow_1())
        stack.enter_context(steps_limited_to(max_steps))
        if max_steps is not None:
            # They load Keras, and tf_keras if it may be used.
            from ipu_tf.compat.step_limit import limiting_stock_models
            from ipu_tf.internals.keras_choice import may_use_tf_keras

            stack.enter_context(limiting_stock_models(max_steps))
            if may_use_tf_keras():
                from ipu_tf.compat.tf_keras.step_limit import limiting_models_of_tf_keras

                stack.enter_context(limiting_models_of_tf_keras(max_steps))
        if offline:
            # It loads Keras, which scripts without data sets may not need.
            from ipu_tf.compat.offline import without_downloads

            stack.enter_context(without_downloads())
        yield
