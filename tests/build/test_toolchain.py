"""The compiler, the flags and the errors where one of them is missing."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ops import toolchain
from ops.toolchain import BuildError, Toolchain


def make_toolchain(**changes):
    fields = {
        "compiler": "/usr/bin/g++",
        "compiler_version": "g++ 1.0",
        "tensorflow_version": "2.21.0",
        "include_dir": "/somewhere/include",
        "compile_flags": ("-DFROM_TENSORFLOW=1",),
        "link_flags": ("-L/somewhere", "-l:libtensorflow_framework.so.2"),
    }
    return Toolchain(**fields | changes)


def test_flags_are_the_baseline_and_tensorflows():
    flags = make_toolchain().flags_for(Path("ops/core/kernels/kernels_avx2.cc"))
    assert "-mavx2" in flags
    assert "-ffp-contract=off" in flags
    assert "-DFROM_TENSORFLOW=1" in flags
    assert not any(flag.startswith("-mavx512") for flag in flags)


def test_only_files_named_for_it_get_avx512():
    flags = make_toolchain().flags_for(Path("ops/core/kernels/kernels_avx512.cc"))
    assert {"-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq"} <= set(flags)


def test_flags_name_no_path():
    assert not any("/" in flag for flag in make_toolchain().flags_for(Path("ops/a.cc")))


@pytest.mark.parametrize(
    ("value", "expected"), [(None, ()), ("0", ()), ("1", ("-Wall", "-Wextra", "-Werror"))]
)
def test_warnings_are_errors_where_the_environment_says_so(monkeypatch, value, expected):
    monkeypatch.delenv("IPU_TF_WARNINGS_AS_ERRORS", raising=False)
    if value is not None:
        monkeypatch.setenv("IPU_TF_WARNINGS_AS_ERRORS", value)
    assert toolchain.warning_flags() == expected
    flags = make_toolchain(warning_flags=expected).flags_for(Path("ops/a.cc"))
    assert ("-Werror" in flags) == bool(expected)


def test_other_values_of_it_are_refused(monkeypatch):
    monkeypatch.setenv("IPU_TF_WARNINGS_AS_ERRORS", "yes")
    with pytest.raises(BuildError, match=r"must be 0 or 1\. Received: 'yes'\. Set it to 1 to"):
        toolchain.warning_flags()


def test_headers_of_xla_are_found():
    command = make_toolchain().compile_command(Path("ops/a.cc"), Path("a.o"))
    assert command[command.index("/somewhere/include/external/highwayhash") - 1] == "-isystem"


@pytest.mark.parametrize(
    ("system", "machine"), [("Linux", "aarch64"), ("Darwin", "x86_64"), ("Windows", "AMD64")]
)
def test_other_platforms_are_refused(system, machine):
    with pytest.raises(BuildError, match=f"Received: {system} on {machine}"):
        toolchain.check_platform(system, machine)


def test_linux_on_x86_64_is_accepted():
    toolchain.check_platform("Linux", "x86_64")


def test_missing_compiler_says_what_to_install():
    with pytest.raises(BuildError, match=r"'no-such-g\+\+' is not on PATH\. Install g\+\+"):
        toolchain.find_compiler("no-such-g++")


def test_broken_compiler_shows_its_own_words(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(BuildError, match=r"ended with exit code 3\. Received: out of order"):
        toolchain.find_compiler(str(broken))


def test_compiler_comes_from_the_environment(monkeypatch, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\necho mine 7.0\n")
    mine.chmod(0o755)
    monkeypatch.setenv("CXX", str(mine))
    assert toolchain.find_compiler() == (str(mine), "mine 7.0")


def test_missing_tensorflow_says_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(BuildError, match=r"TensorFlow is not installed for .* Run: pip install"):
        toolchain.find_toolchain()


def test_flags_are_those_that_tensorflow_names():
    found = toolchain.find_toolchain()
    named = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    standard = [flag for flag in named if flag.startswith(("--std", "-std"))]
    libraries = found.link_flags[:-1]
    ours = [f"-I{found.include_dir}", *found.compile_flags, *libraries]
    assert sorted(ours) == sorted(set(named) - {*standard})
    assert standard == ["--std=c++17"]
    assert "-std=c++17" in toolchain.COMPILE_FLAGS


def test_tensorflow_and_its_packages_are_not_imported():
    code = "import sys; from ops.toolchain import find_toolchain; find_toolchain(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"tensorflow", "numpy", "keras"} & {*result.stdout.split()}
