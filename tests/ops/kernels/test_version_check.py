"""The check that the built tile ops fit the installed TensorFlow."""

import importlib
import subprocess
import sys
import types

import pytest
import tensorflow as tf

from ipu_tf.ops.kernels import version_check as _version_check


def test_same_version_is_accepted():
    _version_check.compare("2.21.0", "2.21.0")


@pytest.mark.parametrize("installed", ["2.21.1", "2.20.0", "2.21.0rc1"])
def test_other_version_names_both_and_the_remedy(installed):
    with pytest.raises(ImportError) as caught:
        _version_check.compare("2.21.0", installed)
    message = str(caught.value)
    assert "built for TensorFlow 2.21.0" in message
    assert f"TensorFlow {installed} is installed" in message
    assert "pip install --force-reinstall" in message
    assert "pip install tensorflow==2.21.0" in message


def test_missing_build_says_how_to_build():
    with pytest.raises(ImportError, match=r"not built\. In a checkout run './dev setup'"):
        _version_check.compare(None, "2.21.0")


def test_check_compares_with_the_running_tensorflow(monkeypatch):
    monkeypatch.setattr(_version_check, "built_for", lambda: "1.2.3")
    with pytest.raises(ImportError, match=rf"TensorFlow 1\.2\.3, but TensorFlow {tf.__version__}"):
        _version_check.check()


def test_built_for_reads_the_build_info(monkeypatch):
    info = types.SimpleNamespace(TENSORFLOW_VERSION="9.8.7")
    monkeypatch.setattr(importlib, "import_module", lambda name: info)
    assert _version_check.built_for() == "9.8.7"


def test_built_for_is_none_without_a_build(monkeypatch):
    monkeypatch.setattr(_version_check, "_INFO_MODULE", "ipu_tf._no_such_build_info")
    assert _version_check.built_for() is None


@pytest.mark.slow
def test_using_the_package_checks():
    """In a process of its own: this one has imported the package already."""
    script = (
        "import sys, types\n"
        "info = types.ModuleType('ipu_tf._build_info')\n"
        "info.TENSORFLOW_VERSION = '2.20.0'\n"
        "sys.modules['ipu_tf._build_info'] = info\n"
        "import ipu_tf\n"
        "ipu_tf.IPUStrategy\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode != 0
    assert "ImportError" in result.stderr
    assert "2.20.0" in result.stderr
    assert tf.__version__ in result.stderr
