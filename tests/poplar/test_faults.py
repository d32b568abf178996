"""Planted faults: each is an error of its class that names what is wrong."""

import signal
import subprocess

import pytest

from tests.poplar.conftest import PROGRAMS

pytestmark = pytest.mark.slow

MAPPING, CONNECTION = "invalid_tile_mapping", "graph_connection_error"
COMPILATION, LOAD = "graph_program_compilation_error", "file_load_error"
CONTROL, STREAM = "control_program_error", "stream_connection_error"
RUNTIME = "application_runtime_error"

FAULTS = {
    "unmapped element": (MAPPING, "No tile holds elements 6 to 7 of 'z'"),
    "unmapped vertex": (MAPPING, "No tile runs vertex 0 (tests::Workers) of compute set 'set'"),
    "two writers": (
        COMPILATION,
        "Two vertices of a compute set write element 2 of 'x': field 'data' of vertex 0 "
        "(tests::Workers) of compute set 'set' on tile 4, and field 'data' of vertex 1 "
        "(tests::Workers) of compute set 'set' on tile 5",
    ),
    "writer and reader": (
        COMPILATION,
        "Vertices of a compute set write and read elements 1 to 2 of 'x': field 'data' of vertex 0 "
        "(tests::Workers) of compute set 'set' on tile 4 writes, and field 'rows' of vertex 1 "
        "(tests::ListAdder) of compute set 'set' on tile 5 reads",
    ),
    "unconnected edge": (CONNECTION, "Field 'sum' of vertex 0 (tests::ListAdder)"),
    "edge twice": (CONNECTION, "is connected more than once"),
    "row missing": (CONNECTION, "has no row 0, but has row 1"),
    "wrong size": (CONNECTION, "takes one element. Received: the shape {4}"),
    "wrong type": (CONNECTION, "has elements of int. Received: a tensor of float"),
    "value too large": ("type_error", "the type char cannot hold the value 300"),
    "aliased destination": (CONTROL, "Copy writes y {4} int, which has elements twice"),
    "constant destination": (CONTROL, "Copy writes c {4} int, which has constants"),
    "copy of another size": ("poplar_error", "equally many elements. Received: 4 and 3"),
    "tile over memory": (
        "graph_memory_allocation_error",
        "Tile 1 is out of memory: it needs 803,200 bytes of 638,976 while it runs 'set' (tiles "
        "over the limit: 1). The largest there:\n  800,000 bytes: state 'large'\n"
        "  3,168 bytes: stack\n",
    ),
    "unknown vertex": ("unknown_vertex_type", "no vertex type 'tests::Worker'. The codelets of"),
    "misspelt field": ("unknown_field", "has no field 'date'. Its fields are: data"),
    "stream of another size": ("poplar_error", "from stream 'in' to x {4} int"),
    "unconnected stream": (STREAM, "'in' is used, but not connected"),
    "short buffer": (STREAM, "has 16 bytes. Received: a buffer of 12"),
    "unknown stream": (STREAM, "there is no stream 'in'. The streams of the graph are: none"),
    "tile that is not there": (MAPPING, "there are tiles 0 to 1471 for tensors. Received: 1472"),
    "slice outside": ("index_error", "from 2 to 5 is not inside of dimension 0 of {4}"),
    "float predicate": (CONTROL, "must be BOOL or an integer. Received: f {} float"),
    "tensor of another graph": ("poplar_error", "the tensor belongs to another graph"),
    "abort": (RUNTIME, "enough"),
    "missing codelets": (LOAD, "There is no file of codelets 'no_such_codelets.cpp'"),
    "codelets of the chip": (LOAD, "compiled for the chip, which this machine does not run"),
    "assembly": (COMPILATION, "contain assembly for the chip"),
    "codelet that does not compile": (COMPILATION, "does not name a type"),
    "field of no type": (
        "graph_object_creation_error",
        "its field d has elements of double, which is no type of tensors",
    ),
    "field of its own": (CONNECTION, "Field 'd' of vertex 0 (A) of compute set 'set' is of the"),
    "file of another executable": (LOAD, "this is no executable that this machine wrote"),
    "file that ends early": (LOAD, "Executable::deserialize: the file ends too early."),
    "write behind a field": (
        RUNTIME,
        "A codelet writes element 5 of field 'out', which has 4: vertex 0 (tests::Outside) of "
        "compute set 'set' on tile 9.",
    ),
    "write before a field": (RUNTIME, "A codelet writes element -1 of field 'out', which has 4:"),
    "write to an input": (RUNTIME, "A codelet writes element 2 of field 'in', which is an Input:"),
    "write behind a list": (RUNTIME, "A codelet writes element 2 of field 'list', which has 2:"),
    "vectors of clang": (COMPILATION, "ext_vector_type_is_of_clang_use_float2_of_ipudef_h"),
    "missing compiler": (COMPILATION, "/no/such/compiler cannot be run"),
    "profile of a CPU": ("poplar_error", "A CPU target has no tiles, so there are no cycles"),
    "endless loop": (RUNTIME, "ran for more than 0.1 seconds"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(programs, tmp_path, fault):
    (tmp_path / "codelets.cpp").symlink_to(PROGRAMS / "codelets.cpp")
    (tmp_path / "chip.gp").write_bytes(b"code of the chip")
    result = programs.run(PROGRAMS / "faults.cpp", arguments=[fault], folder=tmp_path)
    kind, words = FAULTS[fault]
    assert result.stdout.startswith(f"{kind}: "), result.stdout + result.stderr
    assert words in result.stdout
    assert result.returncode == 3


def test_a_codelet_that_stays_inside_of_its_fields_passes_the_check(programs):
    result = programs.run(PROGRAMS / "faults.cpp", arguments=["write inside"])
    assert result.stdout == "no error\n"


def test_memory_may_overflow_if_a_program_says_so(programs):
    result = programs.run(PROGRAMS / "faults.cpp", arguments=["tile over memory, allowed"])
    assert result.stdout == "no error\n"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("crash", "a codelet crashed (Segmentation fault): vertex 0 (tests::Crash) of compute set"),
        ("crash of the stack", "a codelet crashed (Segmentation fault): vertex 0 (tests::Deep)"),
        ("endless codelet", "ran for more than 1 seconds: vertex 0 (tests::Endless) of compute"),
    ],
)
def test_a_codelet_that_does_not_end_well_is_named(programs, fault, words):
    result = programs.run(PROGRAMS / "faults.cpp", arguments=[fault])
    assert result.returncode != 0
    assert words in result.stderr
    assert "on tile 9" in result.stderr


def test_ctrl_c_ends_between_compute_sets(programs):
    program = programs.program(PROGRAMS / "faults.cpp")
    with subprocess.Popen(
        [program, "endless program"],
        cwd=PROGRAMS,
        env=programs.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr.readline().startswith("running")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT
        assert process.stdout.read() == "not flushed"
        error = process.stderr.read()
    assert error == "error: interrupted (Ctrl-C), between two steps of the program.\n"
