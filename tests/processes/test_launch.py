"""Jobs of several processes end together, with the status and the words of the first failure."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipu_tf import cli
from ipu_tf.processes.launch import job as jobs
from ipu_tf.processes.launch.job import Job
from ipu_tf.processes.launch.mpi import Arguments, Family, Mpi
from ipu_tf.processes.launch.options import LaunchOptions
from ipu_tf.processes.launch.reports import Failed, Started

ROOT = Path(__file__).resolve().parents[2]
INDEX = "int(os.environ['POPDIST_REPLICA_INDEX_OFFSET'])"
IN_MPI = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
HAS_MPI = importlib.util.find_spec("mpi4py") is not None


def popen(*words, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "ipu_tf.poprun", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def poprun(*words, seconds=60):
    """The status, the output and the error output of a job."""
    with popen(*words) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return process.returncode, out, err


def running(mark):
    """The processes whose command lines contain a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def assert_gone(mark, seconds=10.0):
    limit = time.monotonic() + seconds
    while running(mark) and time.monotonic() < limit:
        time.sleep(0.1)
    assert running(mark) == []


def instances(count, *more):
    return [f"--num-instances={count}", f"--num-replicas={count}", *more]


@pytest.mark.skipif(not HAS_MPI, reason="needs an mpiexec")
def test_an_instance_that_fails_ends_all_with_its_status_and_last_words():
    mark = f"mark-{os.getpid()}"
    program = (
        "if [ $POPDIST_LOCAL_INSTANCE_INDEX = 0 ]; then ls -d $IPU_TF_JOB_FOLDER >&2; fi; "
        "echo of $POPDIST_REPLICA_INDEX_OFFSET, threads $OMP_NUM_THREADS; "
        "if [ $POPDIST_LOCAL_INSTANCE_INDEX = 1 ]; then sleep 0.1; echo bad >&2; exit 7; fi; "
        f"sleep 60; echo {mark}"
    )
    started = time.monotonic()
    status, out, err = poprun(*instances(2), "--tag-output", "sh", "-c", program, mark)
    assert time.monotonic() - started < 30
    assert status == 7
    threads = max(len(os.sched_getaffinity(0)) // 2, 1)
    assert sorted(out.splitlines())[:2] == [
        f"[1,{index}]<stdout>:of {index}, threads {threads}" for index in range(2)
    ]
    assert "[1,1]<stderr>:bad\n" in err
    (folder,) = set(re.findall(r"<stderr>:(\S*ipu_tf-job-\S*)", err))
    assert re.search(
        rf"poprun: instance 1 of 2, on \S+, ended with status 7; all others are ended. Its last "
        rf"lines:\n  of 1, threads {threads}\n  bad\n",
        err,
    )
    assert_gone(mark)
    assert not Path(folder).exists()


def a_job(**options):
    return Job(
        Mpi(path="mpiexec", family=Family.MPICH),
        LaunchOptions(program=(sys.executable, __file__), **options),
        Arguments(),
    )


def test_an_instance_of_another_program_ends_the_job(capsys):
    job = a_job(instances=2, replicas=2)
    job._receive(Started(instance=0, host="a", digest="1"))
    job._receive(Started(instance=1, host="b", digest="2"))
    assert job._result(0) == 1
    assert (
        f"poprun: instance 0 on a and instance 1 on b have different files '{__file__}'. All "
        "instances are ended. Start the job from a folder that all hosts share"
    ) in capsys.readouterr().err


def test_the_first_failure_counts(capsys):
    job = a_job(instances=2, replicas=2)
    job._receive(Failed(instance=1, host="b", returncode=-11, last_lines=()))
    job._receive(Failed(instance=0, host="a", returncode=3, last_lines=("x",)))
    assert job._result(3) == 139
    told = capsys.readouterr().err
    assert "instance 1 of 2, on b, was killed by signal 11 (SIGSEGV)" in told
    assert "Its last lines: none." in told
    assert "on a" not in told
    alone = a_job()
    alone._receive(Failed(instance=0, host="a", returncode=3, last_lines=("x",)))
    assert capsys.readouterr().err == "poprun: instance 0 of 1, on a, ended with status 3.\n"


def test_an_end_that_nobody_reports_is_told(capsys):
    assert a_job(instances=2, replicas=2)._result(5) == 5
    assert (
        "poprun: mpiexec ended with status 5, and no instance has reported why: it called "
        "MPI_Abort, or was lost with its host. 0 of 2 instances had started."
    ) in capsys.readouterr().err


def test_an_instance_that_never_starts_ends_the_job(tmp_path, monkeypatch, capsys):
    waiting = tmp_path / "mpiexec"
    waiting.write_text("#!/bin/sh\nexec sleep 60\n")
    waiting.chmod(0o755)
    job = Job(
        Mpi(path=str(waiting), family=Family.MPICH),
        LaunchOptions(
            program=("true",), instances=2, replicas=2, hosts=("a", "b"), start_seconds=0.01
        ),
        Arguments(),
    )
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "_OWN_END_SECONDS", 0.02)
    assert job.run() == 1
    assert re.search(
        r"after 0.01 s \(--start-timeout\) these instances have not started: 0 on a, 1 on b. All "
        r"others are ended. Check that the hosts can be reached by ssh without a password, and",
        capsys.readouterr().err,
    )


def test_ipu_tf_run_says_to_start_poprun_first(capsys):
    assert cli.main(["run", "poprun", "--num-instances=2", "python3", "train.py"]) == 2
    assert capsys.readouterr().err == (
        "error: poprun starts processes, each of which is to run the script. Turn it round: poprun "
        "--num-instances=N --num-replicas=R ipu-tf run SCRIPT\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py")
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("ending", "status", "words"),
    [
        ("raise ValueError('bad value')", 1, "ended with status 1"),
        ("sys.exit(7)", 7, "ended with status 7"),
        ("os.kill(os.getpid(), 9)", 137, r"was killed by signal 9 \(SIGKILL\)"),
        ("os._exit(6)", 6, "ended with status 6"),
    ],
)
def test_instances_that_wait_for_one_that_failed_are_ended(count, ending, status, words):
    mark = f"mark-{os.getpid()}-{count}"
    program = f"import os, sys\nif {INDEX} == 1: {ending}\n{IN_MPI}"
    found, _, err = poprun(*instances(count), sys.executable, "-c", program, mark)
    assert found == status
    assert re.search(f"poprun: instance 1 of {count}, on .*, {words}; all others are ended", err)
    if "raise" in ending:
        assert "\n  ValueError: bad value\n" in err
    assert_gone(mark)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py")
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("ending", "status", "told"),
    [
        ("raise ValueError('bad value')", 1, "instance 1 failed: ValueError: bad value"),
        ("sys.exit(7)", 7, "instance 1 has ended, and calls it no more"),
    ],
)
def test_each_instance_says_what_it_waited_for_when_one_failed(count, ending, status, told):
    program = (
        "import os, sys\nfrom ipu_tf.processes.job import communicator\njob = communicator()\n"
        f"job.barrier('first')\nif {INDEX} == 1: {ending}\njob.barrier('second')"
    )
    found, _, err = poprun(*instances(count), sys.executable, "-c", program)
    assert found == status
    assert re.search(f"poprun: instance 1 of {count}, on .*, ended with status {status};", err)
    for index in (0, 2, 3)[: count - 1]:
        assert f"Instance {index} waits at barrier 'second', call 1; {told}" in err


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py")
def test_the_programs_own_abort_ends_the_job():
    program = f"import os\n{IN_MPI}\nif {INDEX} == 1: MPI.COMM_WORLD.Abort(5)\n{IN_MPI}"
    status, _, err = poprun(*instances(2), sys.executable, "-c", program)
    assert status == 5
    assert "poprun: " in err
    assert "2 of 2 instances had started" in err or "ended with status 5" in err


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py")
@pytest.mark.parametrize("victim", ["poprun", "mpiexec", "supervisor", "rank", "terminated"])
def test_no_process_is_left_whichever_is_killed(victim):
    mark = f"mark-{os.getpid()}-{victim}"
    program = (
        f"{IN_MPI}\nimport os, time\nprint(os.getpid(), os.getppid(), flush=True)\ntime.sleep(99)"
    )
    with popen(*instances(2), sys.executable, "-c", program, mark) as process:
        rank, supervisor = map(int, process.stdout.readline().split())
        (mpiexec,) = [int(each) for each in children_of(process.pid)]
        killed = {"mpiexec": mpiexec, "supervisor": supervisor, "rank": rank}
        number = signal.SIGTERM if victim == "terminated" else signal.SIGKILL
        os.kill(killed.get(victim, process.pid), number)
        process.communicate(timeout=30)
    statuses = {"poprun": -9, "terminated": 128 + 15, "supervisor": 9}
    assert process.returncode == statuses.get(victim, 137)
    assert_gone(mark)


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py")
def test_two_hosts_by_another_remote_shell(tmp_path):
    shell = tmp_path / "shell"
    shell.write_text(
        "#!/bin/sh\n# Runs what ssh would run on a host, on this one.\n"
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        f'echo "$1" >> {tmp_path}/hosts\nshift\nexec sh -c "$*"\n'
    )
    shell.chmod(0o755)
    program = (
        "import os; from mpi4py import MPI; c = MPI.COMM_WORLD; "
        "print(c.rank, c.size, os.environ['POPDIST_LOCAL_INSTANCE_INDEX'])"
    )
    status, out, err = poprun(
        *instances(4, "--host=alpha[1-2]"),
        f"--mpi-global-args=-launcher ssh -launcher-exec {shell} -localhost 127.0.0.1",
        *(sys.executable, "-c", program),
    )
    assert (status, sorted(out.splitlines())) == (0, ["0 4 0", "1 4 1", "2 4 0", "3 4 1"]), err
    assert sorted((tmp_path / "hosts").read_text().split()) == ["alpha1", "alpha2"]


@pytest.mark.slow
def test_ipu_tf_run_is_a_program_of_poprun(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "from tensorflow.python import ipu\n"
        "import os\nprint('ran', os.environ['POPDIST_REPLICA_INDEX_OFFSET'])\n"
        "from ipu_tf import IPUStrategy\nIPUStrategy()\n"
    )
    status, out, err = poprun(
        *instances(2), sys.executable, "-m", "ipu_tf", "run", str(script), seconds=170
    )
    assert set(out.splitlines()) <= {"ran 0", "ran 1"}
    assert status == 1
    assert "RuntimeError: poprun started 2 instances, " in err
