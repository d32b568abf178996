"""Planted faults: each is an error of its class that names what is wrong."""

import signal
import subprocess

import pytest

from tests.poplar.conftest import PROGRAMS

pytestmark = pytest.mark.slow

MAPPING, CONNECTION = "invalid_tile_mapping", "graph_connection_error"
COMPILATION, LOAD = "graph_program_compilation_error", "file_load_error"
CONTROL, STREAM = "control_program_error", "stream_connection_error"
RUNTIME, REPLICATION = "application_runtime_error", "graph_replication_error"
OPTION = "invalid_option"

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
    "tile that is not there": (MAPPING, "of a tensor: there are tiles 0 to 1471. Received: 1472"),
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
    "replicas that do not fit": (
        REPLICATION,
        "replicas have whole IPUs, or equal parts of one, but the target has 1 of 1472 tiles. "
        "Received: replication_factor(5).",
    ),
    "other device": ("poplar_error", "is for 1472 tiles, the device has 1216."),
    "replica that is not there": (REPLICATION, "there are replicas 0 to 1. Received: 2."),
    "two senders": (REPLICATION, "two replicas send to replica 1."),
    "cross-replica copy of another size": ("poplar_error", "across replicas from x {4} int to y"),
    "branches of replicas": (
        RUNTIME,
        "Replicas take different branches: the predicate index {} unsigned int is 0 on replica 0 "
        "and 1 on replica 1. What depends on it has a copy of the stream 'out', which all",
    ),
    "loops of replicas": (RUNTIME, "What depends on it has a CrossReplicaCopy, which all replicas"),
    "branches with a sync": (RUNTIME, "What depends on it has a Sync of several IPUs, which all"),
    "assumed equal": (
        RUNTIME,
        "AssumeEqualAcrossReplicas: element 1 of index, x {2} unsigned int is 0 on replica 0 and 1 "
        "on replica 1.",
    ),
    "abort of a replica": (RUNTIME, "enough (replica 1)"),
    "write of a replica": (
        RUNTIME,
        "element 5 of field 'out', which has 4: vertex 0 (tests::Outsi",
    ),
    "tile of a replica over memory": (
        "graph_memory_allocation_error",
        "Tile 1 is out of memory: it needs 803,200 bytes of 638,976 while it runs 'set' (tiles "
        "over the limit: 1). The largest there:\n  800,000 bytes: state 'large'\n",
    ),
    "stream of one replica": (STREAM, "'in' is used, but not connected (replica 1)."),
    "short buffer of replicas": (STREAM, "has 32 bytes for all replicas. Received: a buffer of 16"),
    "callback of no replica": (STREAM, "the stream 'in' has replicas 0 to 1. Received: 2."),
    "callback of a broadcast": (
        STREAM,
        "the stream 'in', which is one for all replicas, has replicas 0 to 0. Received: 1.",
    ),
    "tensor of one replica": (
        STREAM,
        "the tensor of 'x' has 16 bytes on each of 2 replicas. Received: 16.",
    ),
    "remote buffer of no replica": (STREAM, "'remote' has replicas 0 to 1. Received: 2."),
    "remote row of a replica": (RUNTIME, "has rows 0 to 0. Received: 1 (replica 1)."),
    "host function, unknown": (
        STREAM,
        "there is no host function 'f'. The host functions of the graph are: none.",
    ),
    "host function, taken": ("poplar_error", "the handle 'f' of a host function is taken"),
    "host function, empty": (CONTROL, "Call: the host function is empty."),
    "host function, not connected": (
        STREAM,
        "The host function 'f' is called, but not connected (replica 1).",
    ),
    "host function, no replica": (STREAM, "'f' has replicas 0 to 0. Received: 1."),
    "host function, inputs missing": (CONTROL, "'f': the inputs must be 2 tensors. Received: 1."),
    "host function, other size": (CONTROL, "output 0 is 3 elements of int. Received: y {4} int."),
    "host function, other type": (CONTROL, "input 0 is 4 elements of float. Received: x {4} int."),
    "host function, elements twice": (CONTROL, "'f' writes y {2} int, which has elements twice."),
    "host function, outputs in common": (CONTROL, "'f': two outputs have an element in common."),
    "IPU that is not there": (
        "poplibs_error",
        "cloneToIpu: the graph has IPUs 0 to 0. Received: 1.",
    ),
    "virtual graph of no tile": ("poplar_error", "at least one tile is needed. Received: none."),
    "virtual graph of a tile twice": ("poplar_error", "a tile is in the list more than once."),
    "virtual graph of other tiles": (MAPPING, "there are tiles 0 to 1. Received: 2."),
    "virtual graph of too many tiles": ("poplar_error", "Received: from 1 to 1473."),
    "endless loop": (RUNTIME, "ran for more than 0.1 seconds"),
    "endless loop of an executable": (RUNTIME, "ran for more than 0.1 seconds"),
    "unknown option": (OPTION, "There is no option 'reports.all' of engines. Names begin with"),
    "misspelt option": (OPTION, "'debug.allowOutofMemory' of engines. Write 'debug.allowOutOfMe"),
    "value of an option": (OPTION, 'debug.allowOutOfMemory is "true" or "false". Received: "yes".'),
    "elements over a short span": (CONNECTION, "whose count holds 2047 elements. Received: 2048."),
    "matrix unit": (COMPILATION, "the matrix unit of the chip is not here"),
    "program as codelets": (LOAD, "What was built with the vendor's SDK, for the chip or"),
    "flat tensors needed": ("poplar_error", "must be flat, with equally many elements."),
    "estimator of no codelet": ("unknown_vertex_type", "registerPerfEstimator: there is no vertex"),
    "dimension of a field": ("index_error", "tests::Workers has 1 dimensions. Received: 1."),
    "options that are no JSON": ("parse_error", "readJSON: options are a JSON object, such as"),
    "unknown system": ("invalid_machine_model", 'or BOW-. Received: "GC200".'),
    "no clones": ("poplar_error", "Graph::cloneN: at least one clone is needed. Received: 0."),
    "unmapped constant": (MAPPING, "No tile holds element 0 of 'k'"),
    "written constant": (CONNECTION, "is written, but elements 0 to 1 of 'k' are constant."),
    "matrix for a list": (CONNECTION, "one dimension. Received: the shape {2,2}. Call"),
    "value of an edge": (CONNECTION, "is an edge. Connect it to a tensor"),
    "edge of a value": (CONNECTION, "is no edge. Give its value with setInitialValue."),
    "number for a list": (CONNECTION, "is a list of numbers. Received: one number"),
    "size of a number": (CONNECTION, "has no size of its own"),
    "handle twice": ("poplar_error", "Graph::createHostRead: the handle 'x' is taken."),
    "stream over memory": (
        "stream_memory_allocation_error",
        "has a buffer of 134217732 bytes. The machine holds 134217728 (128 MB) for a stream.",
    ),
    "row of another size": (STREAM, "'remote' has 16 bytes. Received: a list of 12."),
    "unknown remote buffer": (STREAM, "no remote buffer 'x'. The remote buffers are: remote."),
    "exit status of two": (CONTROL, "Execute: the exit status must be one element. Received: x {4"),
    "exit status of floats": (
        CONTROL,
        "the exit status must be BOOL or an integer. Received: f {}",
    ),
    "exit status of a constant": (CONTROL, "Execute writes k {} int, which has constants."),
    "stream backwards": ("poplar_error", "to stream 'in': the stream goes the other way."),
    "row of no integer": ("type_error", "the row must be INT or UNSIGNED_INT. Received: float."),
    "row that is missing": ("poplar_error", "has 2 rows. Give the number of the row as a tensor."),
    "empty tensor": ("poplar_error", "Graph::setTileMapping needs a tensor, but"),
    "shape of another size": ("poplar_error", "{4} and {3} have different numbers of elements"),
    "function of no graph": (CONTROL, "Call: the function is empty."),
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
        ("crash of a replica", "of compute set 'set' on tile 9 (replica 1). Check that it stays"),
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
        # Where tests run in the background, Ctrl-C is ignored, as it would be in what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stderr.readline().startswith("running")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == -signal.SIGINT
        finally:
            process.kill()
        assert process.stdout.read() == "not flushed"
        error = process.stderr.read()
    assert error == "error: interrupted (Ctrl-C), between two steps of the program.\n"


def test_variables_of_the_environment_have_an_effect(programs, tmp_path):
    def ran(fault, **variables):
        return subprocess.run(
            [programs.program(PROGRAMS / "faults.cpp"), fault],
            cwd=PROGRAMS,
            env=programs.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    quiet = "options of the environment"
    options = '{"debug.allowOutOfMemory": true}'
    for variable in ("POPLAR_ENGINE_OPTIONS", "POPLAR_RUNTIME_OPTIONS"):
        assert ran("tile over memory", **{variable: options}).stdout == "no error\n"
    assert "poplar: ran program 0 (" in ran(quiet, POPLAR_LOG_LEVEL="INFO").stderr
    assert ran(quiet, POPLAR_LOG_LEVEL="WARN").stderr == ""
    log = tmp_path / "log"
    assert ran(quiet, POPLAR_LOG_LEVEL="DEBUG", POPLAR_LOG_DEST=str(log)).stderr == ""
    assert log.read_text().startswith("poplar: compiled codelets of 'codelets.cpp'")
    level = ran(quiet, POPLAR_LOG_LEVEL="LOUD").stdout
    assert "POPLAR_LOG_LEVEL is OFF, ERR, WARN, INFO, DEBUG or TRACE. Received: 'LOUD'" in level
    place = ran(quiet, POPLAR_LOG_LEVEL="INFO", POPLAR_LOG_DEST=str(tmp_path)).stdout
    assert "POPLAR_LOG_DEST is stdout, stderr or a file that can be written. Received:" in place
    shared = tmp_path / "ipu_tf" / "codelets"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    assert "may write to it. Run: chmod 700 " in ran(quiet, XDG_CACHE_HOME=str(tmp_path)).stdout
    nowhere = ran(quiet, XDG_CACHE_HOME="", HOME="").stdout
    assert "neither XDG_CACHE_HOME nor HOME is set. Set XDG_CACHE_HOME" in nowhere
