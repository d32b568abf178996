"""Benchmarks as on a processor with AVX2 and nothing beyond it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import avx2_alone
from benchmarks.__main__ import main, parse
from benchmarks.errors import CannotLimitError
from ops.toolchain import BuildError

FEATURES = (
    "from numpy._core._multiarray_umath import __cpu_features__ as features;"
    "print(features['AVX2'], features['AVX512F'])"
)


@pytest.fixture
def limited() -> dict[str, str]:
    """The environment of processes that are limited to AVX2."""
    try:
        return avx2_alone.limited_environment()
    except (CannotLimitError, BuildError) as reason:
        pytest.skip(str(reason))


def test_a_limited_process_and_its_children_find_avx2_and_no_more(limited: dict[str, str]) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FEATURES!r}])"
    for code in (FEATURES, child):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=limited,
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.split() == ["True", "False"]


def test_a_crash_of_a_limited_process_still_ends_it(limited: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import ctypes; ctypes.string_at(0)"],
        env=limited,
        capture_output=True,
        check=False,
    )
    assert result.returncode == -11


def test_a_processor_that_cannot_be_limited_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(avx2_alone, "_PROBE", "raise SystemExit(1)")
    assert main(["ops", "--avx2"]) == 1
    assert "another machine" in capsys.readouterr().err


def test_libraries_that_a_process_preloads_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "limit.so"
    monkeypatch.setattr(avx2_alone, "LIBRARY", library)
    monkeypatch.setattr(avx2_alone, "library", lambda: library)
    monkeypatch.setenv("LD_PRELOAD", "one.so two.so")
    assert not avx2_alone.is_limited()
    monkeypatch.setenv("LD_PRELOAD", avx2_alone.limited_environment()["LD_PRELOAD"])
    assert os.environ["LD_PRELOAD"] == f"{library}:one.so:two.so"
    assert avx2_alone.is_limited()


def test_the_option_is_that_of_benchmarks_of_training_and_of_ops() -> None:
    assert parse(["kinds", "--avx2"]).avx2
    assert not parse(["ops"]).avx2
    assert not avx2_alone.is_limited()
