"""pkg-config and CMake find Poplar's libraries."""

import os
import shutil
import subprocess

import pytest

from ipu_tf.poplar.packages import write_packages
from tests.poplar.conftest import PROGRAMS

PROJECT = """
cmake_minimum_required(VERSION 3.10)
project(Views LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(poplar REQUIRED)
add_executable(views {source})
target_link_libraries(views poplar poputil popops)
"""


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@needs("pkg-config")
def test_pkg_config_prints_what_a_program_needs(tmp_path):
    prefix = tmp_path / "a prefix"
    write_packages(prefix, ("poplar", "poputil", "popops"))
    result = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "popops"],
        env=os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")},
        capture_output=True,
        text=True,
        check=True,
    )
    words = result.stdout
    assert "-lpopops" in words
    assert words.index("-lpopops") < words.index("-lpoputil") < words.index("-lpoplar")
    assert "a\\ prefix/lib/pkgconfig/../../include" in words


@pytest.mark.slow
@needs("cmake")
def test_cmake_finds_the_libraries(programs, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(source=PROGRAMS / "views.cpp"))
    environment = programs.environment | {"CMAKE_PREFIX_PATH": str(programs.place.prefix)}
    for words in (["-S", ".", "-B", "build"], ["--build", "build"]):
        subprocess.run(
            ["cmake", *words], cwd=tmp_path, env=environment, capture_output=True, check=True
        )
    result = subprocess.run(
        [tmp_path / "build" / "views"], cwd=PROGRAMS, capture_output=True, text=True, check=True
    )
    assert result.stdout == "views hold\n"
