"""Published programs, unmodified, from the folder that POPLAR_PROGRAMS names.

It holds checkouts as OWNER/NAME of GitHub. Headers and libraries of others that a program needs
(Boost, cxxopts) are found by CPATH and LIBRARY_PATH.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, find_compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("POPLAR_PROGRAMS" not in os.environ, reason="POPLAR_PROGRAMS is not set"),
]

TUTORIALS = "graphcore/examples/tutorials/tutorials/poplar"
FEATURES = "graphcore/examples/tutorials/feature_examples/poplar"
COOKBOOK = "UoB-HPC/ipu-hpc-cookbook"
MONTE_CARLO = "graphcore/hpc-cookbook/monte-carlo-method"
BOOST = "-lboost_program_options"


@dataclass(frozen=True)
class Published:
    """A program: its folder and source, words of its command line, and what it prints."""

    folder: str
    source: str
    prints: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    popc: str = ""


def monte_carlo(folder, source, *prints):
    arguments = ("--iterations", "1000000", "--chunk_size", "100")
    return Published(f"{MONTE_CARLO}/{folder}", source, prints, arguments, (BOOST,))


ROW = "\n  0 1 1.5 2 \n"
PROGRAMS = {
    "variables": Published(
        f"{TUTORIALS}/tut1_variables/complete",
        "tut1_ipu_model_complete.cpp",
        ("v1-debug: [1.0000000 1.5000000 2.0000000 2.5000000]", "v4-1: [10 11 12 13", ROW),
    ),
    "variables on a device": Published(
        f"{TUTORIALS}/tut1_variables/complete", "tut1_ipu_hardware_complete.cpp", (ROW,)
    ),
    "operations": Published(
        f"{TUTORIALS}/tut2_operations/complete",
        "tut2_complete.cpp",
        (
            "[5.0000000 4.5000000]\n  [4.0000000 3.5000000]",
            "[9.0000000 7.5000000]\n  [6.0000000 4.5000000]",
            "[5.0000000 3.5000000]\n  [5.0000000 3.5000000]",
        ),
    ),
    "vertices": Published(
        f"{TUTORIALS}/tut3_vertices/complete",
        "tut3_complete.cpp",
        ("v2: [7.0000000 6.0000000 4.5000000 2.5000000]",),
    ),
    "matrix and vector": Published(
        f"{TUTORIALS}/tut5_matrix_vector/complete",
        "tut5_complete.cpp",
        ("Multiplication result OK",),
        ("40", "50"),
    ),
    "matrix and vector on a device": Published(
        f"{TUTORIALS}/tut5_matrix_vector/complete",
        "tut5_ipu_hardware_complete.cpp",
        ("Multiplication result OK",),
        ("40", "50"),
    ),
    "choice of a split": Published(
        f"{TUTORIALS}/tut6_matrix_vector_opt",
        "tut6.cpp",
        ("colsAxisSplit=7, total cost=3996", "Worst cost seen: 53807", "Multiplication result OK"),
        ("10000", "1000"),
    ),
    "prefetch": Published(f"{FEATURES}/prefetch", "prefetch.cpp", ("complete (value: 9)",)),
    "advanced example": Published(
        f"{FEATURES}/advanced_example",
        "main.cpp",
        ("Results match.",),
        ("--model",),
        (BOOST,),
        popc="codelets",
    ),
    "skeleton": Published(
        f"{COOKBOOK}/skeleton-program/src", "SkeletonForIpu.cpp", ("STEP 9: Capture debug",)
    ),
    "halo exchange": Published(
        f"{COOKBOOK}/structured-halo-exchange/src",
        "HaloRegionApproaches.cpp",
        ("Running halo exchange iterations took",),
        ("-n", "2", "-b", "20", "-m"),
    ),
    "diffusion": Published(
        "TszwangKo/FYP_IPU_DEVITO/IPU/DiffusionEquation3D/SO4",
        "main.cpp",
        ("Mean Squared Error (IPU vs. CPU) = 0.000 (exactly)",),
        ("--cpu", "--height", "64", "--width", "64", "--depth", "64"),
        (BOOST,),
        popc="codelets",
    ),
    "pi by vertices with numbers": Published(
        "UCL-RITS/pi_examples/cpp_ipu_pi_dir",
        "pi.cpp",
        ("Obtained value of PI: 3.1416",),
        ("100000",),
    ),
    "pi": monte_carlo("pi", "vertex_ipu_pi.cpp", "pi = 3.1"),
    "integral by products": monte_carlo("integrals", "vertex_ipu_prod.cpp", "result ="),
    "integral of NAG": monte_carlo("integrals", "vertex_ipu_nag.cpp", "result ="),
    "continuous integral": monte_carlo("integrals", "vertex_ipu_cont.cpp", "result ="),
    "corner integral": monte_carlo("integrals", "vertex_ipu_corner.cpp", "result ="),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_published_program_compiles_and_prints_its_results(programs, tmp_path, name):
    published = PROGRAMS[name]
    folder = tmp_path / "program"
    shutil.copytree(Path(os.environ["POPLAR_PROGRAMS"]) / published.folder, folder)
    place = programs.place
    words = [*PROGRAM_FLAGS, *place.compile_flags, str(folder / published.source)]
    words += ["-o", str(folder / "a.out"), *place.link_flags, *published.flags]
    find_compiler().run(words, published.source)
    if published.popc:
        popc = [
            place.prefix / "bin" / "popc",
            f"{published.popc}.cpp",
            "-o",
            f"{published.popc}.gp",
        ]
        subprocess.run(popc, cwd=folder, env=programs.environment, check=True)
    result = subprocess.run(
        [folder / "a.out", *published.arguments],
        cwd=folder,
        env=programs.environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    printed = result.stdout + result.stderr
    assert result.returncode == 0, printed
    for words in published.prints:
        assert words in printed
