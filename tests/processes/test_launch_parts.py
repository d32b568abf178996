"""What poprun is made of: the MPI's command line, the program's, cores, reports, lines."""

import os
import runpy
import selectors
import socket
import sys
from collections import deque
from pathlib import Path

import pytest

from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.instances import Instances, LaunchError
from ipu_tf.processes.launch import instance, programs, python_program
from ipu_tf.processes.launch.children import ending, status_of
from ipu_tf.processes.launch.cores import share_of_cores, thread_variables
from ipu_tf.processes.launch.job import job_environment
from ipu_tf.processes.launch.job_description import JobDescription, described
from ipu_tf.processes.launch.mpi import Arguments, Family, Mpi, find_mpi, mpi_command, understood
from ipu_tf.processes.launch.options import LaunchOptions
from ipu_tf.processes.launch.output import LineRelay
from ipu_tf.processes.launch.programs import program_command, script_of
from ipu_tf.processes.launch.reports import Failed, ReportReader, Started, encoded

RUNNER = python_program.__file__
MPICH = Mpi(path="/opt/mpich/bin/mpiexec", family=Family.MPICH)
OPEN_MPI = Mpi(path="/opt/openmpi/bin/mpirun", family=Family.OPEN_MPI)
TWO_HOSTS = LaunchOptions(program=("p",), instances=4, replicas=4, hosts=("a", "b"))


def fake_mpirun(folder, version, name="mpirun"):
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "family"),
    [("HYDRA build details:", Family.MPICH), ("mpirun (Open MPI) 5.0.11", Family.OPEN_MPI)],
)
def test_the_mpi_is_told_by_its_version(tmp_path, version, family):
    path = fake_mpirun(tmp_path / "", version)
    assert find_mpi({"IPU_TF_MPIRUN": str(path)}) == Mpi(path=str(path), family=family)


def test_a_missing_or_strange_mpi_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UsageError, match=r"no mpiexec or mpirun .* pip install 'ipu_tf\[distrib"):
        find_mpi({"PATH": str(tmp_path)})
    fake_mpirun(tmp_path, "Fabric launcher 1.0")
    with pytest.raises(UsageError, match=r"neither MPICH's .* IPU_TF_MPIRUN.*Fabric launcher 1.0"):
        find_mpi({"PATH": str(tmp_path)})


def test_arguments_of_open_mpi_are_translated_for_mpich():
    found = understood(
        "--tag-output --allow-run-as-root --mca btl_tcp_if_include eno1 -x PATH -x 'A=1 2' "
        "--map-by slot -launcher ssh",
        Family.MPICH,
    )
    assert found.words == ("-launcher", "ssh")
    assert found.environment == {"A": "1 2"}
    assert found.without_effect == ("--mca btl_tcp_if_include eno1", "--map-by slot")
    assert understood("-x A --tag-output", Family.OPEN_MPI).words == ("-x", "A")
    with pytest.raises(UsageError, match='No closing quotation. Received: "-x \'A"'):
        understood("-x 'A", Family.MPICH)


def test_the_command_lines_of_both_mpis(monkeypatch):
    words = Arguments(words=("-x", "TF_A=1", "--allow-run-as-root"))
    assert mpi_command(MPICH, TWO_HOSTS, Arguments(), ["i"]) == [
        *(MPICH.path, "-n", "4", "-hosts", "a,b", "-ppn", "2", "i")
    ]
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", "TF_A": "0", "TF_B": "2", "HOME": "/"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert mpi_command(OPEN_MPI, TWO_HOSTS, words, ["i"]) == [
        *(OPEN_MPI.path, "-n", "4", "--host", "a:2,b:2", "--oversubscribe", "--bind-to", "none"),
        *("-x", "PATH", "-x", "TF_B", "-x", "TF_A=1", "--allow-run-as-root", "i"),
    ]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert mpi_command(OPEN_MPI, TWO_HOSTS, words, ["i"]).count("--allow-run-as-root") == 1


def test_the_environment_of_a_job(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    options = LaunchOptions(program=("p",), executable_cache_path="a b")
    found = job_environment(options, MPICH, Arguments(environment={"A": "1"}))
    assert found["TF_POPLAR_FLAGS"] == "--use_ipu_model --executable_cache_path='a b'"
    assert (found["A"], found["PYTHONUNBUFFERED"]) == ("1", "1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libmpi.so.12"
    library.touch()
    mpi = Mpi(path=str(tmp_path / "bin" / "mpiexec"), family=Family.MPICH)
    assert job_environment(options, mpi, Arguments())["MPI4PY_LIBMPI"] == str(library)


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("a.py -m b", "RUN a.py -m b"),
        ("-u -W error -Xdev a.py", "-u -W error -Xdev RUN a.py"),
        ("-um pkg.mod -c", "-u RUN -m pkg.mod -c"),
        ("-mpkg x", "RUN -m pkg x"),
        ("-uc code x", "-u RUN -c code x"),
        ("--version", "--version"),
        ("-i", "-i"),
        ("- x", "- x"),
    ],
)
def test_pythons_program_runs_in_our_runner(given, run):
    words = program_command([sys.executable, *given.split()])
    assert words == [sys.executable, *run.replace("RUN", RUNNER).split()]


def test_scripts_with_pythons_name_run_in_it_too_and_others_do_not(tmp_path, monkeypatch):
    script = tmp_path / "ipu-script"
    script.write_text("#!/usr/bin/python3 -s\n")
    script.chmod(0o755)
    assert program_command([str(script), "x"]) == [
        "/usr/bin/python3",
        "-s",
        RUNNER,
        str(script),
        "x",
    ]
    script.write_text(f"#!/usr/bin/env {Path(sys.executable).name}\n")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program_command([str(script)]) == [sys.executable, RUNNER, str(script)]
    assert program_command(["/bin/sh", "-c", "x"]) == ["/bin/sh", "-c", "x"]
    assert script_of(["python3", "-u", str(script), "x"]) == str(script)
    assert script_of(["python3", "-m", "nothing"]) == ""
    script.rename(tmp_path / "poprun")
    with pytest.raises(UsageError, match="the program is poprun itself. Start poprun once"):
        program_command([str(tmp_path / "poprun")])
    with pytest.raises(UsageError, match="no program 'python9' on PATH. Name the program first"):
        program_command(["python9", "a.py"])


@pytest.mark.parametrize(
    ("words", "text", "status"),
    [
        (["-c", "import sys; print(__name__, sys.argv)", "a"], "__main__ ['-c', 'a']\n", None),
        (["-c", "import sys; sys.exit(3)"], "", 3),
        (["-c", "import sys; sys.exit('why')"], "", 1),
        (["-c", "1 / 0"], "", 1),
        (["-c", "raise KeyboardInterrupt"], "", 130),
        (["-c", "import sys; sys.exit(256)"], "", 1),
        (["nowhere.py", ""], "", 1),
    ],
)
def test_the_runner_ends_at_once_with_the_status(words, text, status, monkeypatch, capsys):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(python_program.atexit, "_run_exitfuncs", lambda: None)
    monkeypatch.setattr(sys, "argv", ["runner", *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    python_program.main()
    printed = capsys.readouterr()
    assert printed.out == text
    assert ended == ([] if status is None else [status])
    if words[1] == "1 / 0":
        assert printed.err.startswith('Traceback (most recent call last):\n  File "<string>", line')
        assert printed.err.endswith("ZeroDivisionError: division by zero\n")
    if words[0] == "nowhere.py":
        assert printed.err.startswith("FileNotFoundError: [Errno 2] No such file or directory: ")


def test_the_runner_tells_its_supervisor_before_what_python_does_at_the_end(monkeypatch):
    supervisor, of_runner = socket.socketpair()
    order = []
    monkeypatch.setattr(os, "_exit", order.append)
    monkeypatch.setattr(
        python_program.atexit, "_run_exitfuncs", lambda: order.append(supervisor.recv(2))
    )
    monkeypatch.setattr(sys, "argv", ["runner", "-c", "raise SystemExit(7)"])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setitem(sys.modules, "ipu_tf.processes.communicator", object())
    monkeypatch.setenv(python_program.STATUS_DESCRIPTOR, str(of_runner.fileno()))
    with supervisor, of_runner:
        supervisor.send(b"k")
        python_program.main()
    assert order == [bytes([7, 1]), 7]
    assert python_program.STATUS_DESCRIPTOR not in os.environ


def test_the_runner_gives_scripts_and_modules_their_folder(monkeypatch, tmp_path, capsys):
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    (tmp_path / "script.py").write_text("import sys, beside\nprint(beside.word, sys.argv)\n")
    monkeypatch.chdir(tmp_path)
    for words in (["script.py", "a"], ["-m", "script", "a"]):
        monkeypatch.setattr(sys, "path", ["of the runner", *sys.path])
        monkeypatch.setattr(sys, "argv", [RUNNER, *words])
        monkeypatch.delitem(sys.modules, "beside", raising=False)
        runpy.run_path(RUNNER, run_name="__main__")
        assert capsys.readouterr().out.startswith("found [")
    monkeypatch.delitem(sys.modules, "beside")


@pytest.mark.parametrize(
    ("cores", "count", "shares"),
    [
        ([0, 1, 2, 3], 2, [(0, 1), (2, 3)]),
        ([0, 2, 4], 2, [(0,), (2, 4)]),
        ([0, 1], 2, [(0,), (1,)]),
        ([3, 5], 3, [(3,), (5,), (3,)]),
        ([7], 1, [(7,)]),
    ],
)
def test_instances_share_out_the_cores(cores, count, shares):
    assert [share_of_cores(cores, index, count) for index in range(count)] == shares


def test_threads_are_as_many_as_cores_unless_chosen():
    assert thread_variables(4, {"OMP_NUM_THREADS": "1"}) == {
        "TF_NUM_INTRAOP_THREADS": "4",
        "TF_NUM_INTEROP_THREADS": "4",
    }
    assert thread_variables(1, {})["TF_NUM_INTEROP_THREADS"] == "2"


def test_a_description_makes_an_instance_of_a_rank():
    told = JobDescription(token="t", instances=4, per_host=2, replicas=8, ipus_per_replica=3)
    assert described(told.word()) == told
    assert told.instance({"PMI_RANK": "3", "PMI_SIZE": "4"}) == Instances(
        index=3,
        count=4,
        local_index=1,
        total_replicas=8,
        local_replicas=2,
        replica_offset=6,
        ipus_per_replica=3,
        launcher="poprun",
    )
    assert told.of_host({"PMI_RANK": "3", "PMI_SIZE": "4"}) == (1, 2)
    assert told.of_host({"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}) == (0, 1)
    with pytest.raises(LaunchError, match="for 4 processes, but this one is no MPI rank"):
        told.instance({})
    with pytest.raises(LaunchError, match="one of 2 MPI ranks: arguments of mpirun must not"):
        told.instance({"PMI_RANK": "1", "PMI_SIZE": "2"})


def test_reports_are_found_between_lines_however_they_are_cut():
    reports = [
        Started(instance=1, host="a", digest="d"),
        Failed(instance=1, host="a", returncode=-9, last_lines=("x", "é")),
    ]
    stream = b"one\n10%" + encoded(reports[0], "tok") + b"\x1eno\n" + encoded(reports[1], "tok")
    stream += b"end\x1e"
    for size in (1, 7, len(stream)):
        written, received = [], []
        reader = ReportReader("tok", write=written.append, receive=received.append)
        for start in range(0, len(stream), size):
            reader.feed(stream[start : start + size])
        reader.close()
        assert received == reports
        assert b"".join(written) == b"one\n10%\x1eno\nend\x1e"


def test_lines_are_written_whole_and_kept(tmp_path):
    last = deque(maxlen=2)
    with (tmp_path / "out").open("wb") as file:
        relay = LineRelay(file.fileno(), b"[1,0]<stdout>:", last)
        for data in (b"a\nb", b"c\n", b"10%\r20%\r", b"name?"):
            relay.feed(data)
        relay.flush()
        relay.feed(b" me\n")
        LineRelay(None, b"", last).feed(b"not shown\n")
    assert (tmp_path / "out").read_bytes().replace(b"[1,0]<stdout>:", b"|") == (
        b"|a\n|bc\n|10%\r|20%\r|name? me\n"
    )
    assert list(last) == [" me", "not shown"]


def test_ends_in_words():
    assert (ending(7), status_of(7)) == ("ended with status 7", 7)
    assert (ending(-9), status_of(-9)) == ("was killed by signal 9 (SIGKILL)", 137)
    assert ending(-200) == "was killed by signal 200"
    assert programs.program_command(["/bin/sh"]) == ["/bin/sh"]


def test_a_program_that_ends_before_it_reads_the_answer_has_ended():
    description = JobDescription(token="t", instances=1, per_host=1, replicas=1, ipus_per_replica=1)
    supervisor = instance._Supervisor(description, Instances(launcher="poprun"), {})
    status, of_program = socket.socketpair()
    with status, selectors.DefaultSelector() as selector:
        selector.register(status, selectors.EVENT_READ)
        status.send(b"k")
        of_program.close()  # With the answer unread: the connection is reset.
        supervisor._take_status(status, selector)
        assert not selector.get_map()
