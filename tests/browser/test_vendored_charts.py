"""The vendored charts are those that the pinned packages make."""

import subprocess
from pathlib import Path

import pytest

import ipu_tf
from tests.browser import chromium

VENDOR = Path(ipu_tf.__file__).parent / "profile" / "html" / "vendor"


@pytest.mark.slow
def test_the_packages_make_the_same_files(tmp_path):
    if not (chromium.HERE / "node_modules" / "esbuild").is_dir():
        pytest.skip("the package esbuild is not there: run `npm ci` in tests/browser")
    script = chromium.HERE / "vendor_echarts.mjs"
    subprocess.run(["node", str(script), str(tmp_path)], check=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in VENDOR.iterdir()}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (VENDOR / path.name).read_bytes(), path.name
