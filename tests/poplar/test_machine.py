"""Programs of our own against Poplar's libraries; each checks its numbers itself."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.poplar.conftest import PROGRAMS

pytestmark = pytest.mark.slow


def test_views_of_tensors_read_their_elements(programs):
    result = programs.run(PROGRAMS / "views.cpp")
    assert (result.returncode, result.stdout) == (0, "views hold\n"), result.stderr


def test_codelets_control_flow_streams_and_popops(programs):
    result = programs.run(PROGRAMS / "machine.cpp")
    assert (result.returncode, result.stdout) == (0, "the machine holds\n"), result.stderr


def test_replicas_functions_of_the_host_and_several_ipus(programs):
    result = programs.run(PROGRAMS / "replicas.cpp")
    assert (result.returncode, result.stdout) == (0, "replicas hold\n"), result.stderr


def test_every_name_of_the_host_and_of_codelets_is_there(programs):
    result = programs.run(PROGRAMS / "names.cpp")
    assert (result.returncode, result.stdout) == (0, "the names are there\n"), result.stderr


def test_the_same_under_sanitizers(sanitized):
    assert sanitized.run(PROGRAMS / "views.cpp").stderr == ""
    for name in ("machine.cpp", "replicas.cpp"):
        result = sanitized.run(PROGRAMS / name)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_graph_as_text(programs):
    result = programs.run(PROGRAMS / "machine.cpp", arguments=["text"])
    graph, vertices, sets = result.stdout.split("---\n")
    variable = {"name": 'x "quoted"', "type": "int", "elements": 8, "constant": False}
    assert json.loads(graph) == {
        "tiles": 1472,
        "variables": [variable | {"tiles": [[0, 7], [4, None]]}],
        "compute_sets": [{"name": "set"}],
        "vertices": [{"type": "tests::Workers", "compute_set": 0, "tile": 3}],
        "edges": [{"vertex": 0, "field": "data", "elements": [[0, 2, 4]]}],
    }
    assert "node0 [label=\"vertex 0 (tests::Workers) of compute set 'set' on tile 3\"]" in vertices
    assert 'node0 [label="set"];' in sets
    for text in (vertices, sets):
        assert "  variable0 -> node0;\n  node0 -> variable0;\n}" in text


def test_codelets_compile_once(programs):
    programs.run(PROGRAMS / "machine.cpp")
    folder = programs.folder / "cache" / "ipu_tf" / "codelets"
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.so")}
    assert len(before) >= 2
    programs.run(PROGRAMS / "machine.cpp")
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*.so")} == before
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.glob("work-*")) == []


def test_a_program_of_popc_loads(programs, tmp_path):
    popc = programs.place.prefix / "bin" / "popc"
    shutil.copy(PROGRAMS / "codelets.cpp", tmp_path)
    subprocess.run(
        [popc, "-O2", "-target=ipu2", "codelets.cpp", "-o", "codelets.gp"],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    (tmp_path / "codelets.gp").rename(tmp_path / "codelets.cpp")
    result = programs.run(PROGRAMS / "faults.cpp", arguments=["misspelt field"], folder=tmp_path)
    assert "has no field 'date'" in result.stdout


def test_popc_says_what_it_is_and_refuses_instructions_of_the_chip(programs):
    def ran(*words):
        command = [programs.place.prefix / "bin" / "popc", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    code, version = ran("--version")
    assert (code, version.split()[2]) == (0, "3.3.0")
    assert ran("--list-targets") == (0, "ipu1\nipu2\ncpu\n")
    code, words = ran("-S", "codelets.cpp", "-o", "codelets.S")
    assert code == 1
    assert "popc -S writes instructions of the chip, which this machine does not have" in words
    assert ran("codelets.cpp")[0] == 2
    code, words = ran("codelets.S", "-o", "codelets.gp")
    assert (code, "Received: 'codelets.S'" in words) == (1, True)


def test_a_library_of_the_vendor_fails_by_symbol(programs, tmp_path):
    source = tmp_path / "other.cpp"
    source.write_text(
        "namespace poplar { class Graph { public: bool hasCodelet(const char*) const; }; }\n"
        "bool f(const poplar::Graph& g) { return g.hasCodelet(nullptr); }\nint main() {}\n"
    )
    flags = ["g++", str(source), "-o", str(tmp_path / "other"), *programs.place.link_flags]
    result = subprocess.run(flags, capture_output=True, text=True, check=False)
    assert "undefined reference to `poplar::Graph::hasCodelet" in result.stderr


def test_the_stencil_of_the_tutorial_equals_numpys(programs, tmp_path):
    folder = PROGRAMS.parents[2] / "tutorials" / "poplar"
    cells_file = tmp_path / "cells"
    arguments = ["20", str(cells_file)]
    result = programs.run(folder / "stencil.cpp", arguments=arguments, folder=folder)
    assert result.stdout.endswith("Equal to the host's, bit for bit.\n"), result.stderr
    cells = np.zeros((32 * 8 + 2, 46 * 8 + 2), np.float32)
    cells[0] = 100
    for _ in range(2 * 20):
        across = cells[1:-1, :-2] + cells[1:-1, 2:]
        down = cells[:-2, 1:-1] + cells[2:, 1:-1]
        cells[1:-1, 1:-1] = np.float32(0.25) * (across + down)
    found = np.fromfile(cells_file, np.float32).reshape(cells.shape)
    np.testing.assert_array_equal(found, cells)
    assert 0 < found[1, 185] < 100
