"""The command line of poprun: options of published scripts, hosts, files of options."""

import argparse
import json
import os
import shlex
from pathlib import Path

import pytest

from ipu_tf import __version__, cli, poprun
from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.launch.hosts import read_host_file, read_hosts
from ipu_tf.processes.launch.mpi import Arguments, Family, Mpi, mpi_command
from ipu_tf.processes.launch.options import (
    WITHOUT_EFFECT,
    LaunchOptions,
    add_arguments,
    join_words,
    launch_options,
    without_effect,
)
from ipu_tf.processes.launch.topology import topology, topology_text

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "distributed.md").read_text()


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(join_words(words))


def options(*words):
    return launch_options(parsed(*words))


def test_a_published_command_line():
    found = options(
        *("-vv", "--host", "a,b", "--num-instances=4", "--num-replicas", "8"),
        *("--ipus-per-replica", "2", "--numa-aware=yes", "--vipu-server-host=10.1.3.101"),
        *("--vipu-partition=pod16", "--reset-partition=no", "--update-partition", "1"),
        *("--print-topology=yes", "--executable-cache-path", "cache/rn50"),
        "--mpi-global-args=--tag-output --allow-run-as-root",
        *("--mpi-local-args", "-x PATH -x IPUOF_VIPU_API_TIMEOUT=600"),
        *("python3", "train.py", "--num-replicas", "3", "--mpi-local-args", "-c"),
    )
    assert found == LaunchOptions(
        program=("python3", "train.py", "--num-replicas", "3", "--mpi-local-args", "-c"),
        instances=4,
        replicas=8,
        ipus_per_replica=2,
        hosts=("a", "b"),
        mpi_arguments="--tag-output --allow-run-as-root -x PATH -x IPUOF_VIPU_API_TIMEOUT=600",
        executable_cache_path="cache/rn50",
        tags_output=True,
        prints_topology=True,
        verbosity=2,
    )


def test_other_spellings():
    assert options("--num-instance", "2", "--num-replicas=2", "-H", "a", "p").instances == 2
    assert options("--hosts=a", "p").hosts == ("a",)
    assert options("--vv", "p").verbosity == 2
    assert options("--mpi-global-args", "--allow-run-as-root", "p").program == ("p",)
    assert options("--num-instances", "1", "--", "p", "--", "-x").program == ("p", "--", "-x")
    assert options("--tag-output", "--only-output-from-instance=0", "p").only_output_from == 0
    assert not options("--print-topology", "0", "p").prints_topology


def test_each_instance_has_a_replica_unless_told():
    assert options("--num-instances=3", "p").replicas == 3


def test_options_without_effect_are_named_with_the_reason():
    words = [
        name if name in ("--allow-run-as-root", "--debug") else f"{name}=1"
        for name in WITHOUT_EFFECT
    ]
    told = without_effect(parsed(*words, "--sync=2", "p"))
    assert [line.split()[0] for line in told] == [*WITHOUT_EFFECT]
    assert told[0] == "--vipu-server-host has no effect: the simulated IPUs need no V-IPU partition"
    assert without_effect(parsed("--num-replicas=2", "p")) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no program to start. Name one: poprun"),
        (["--num-instances=0", "p"], "--num-instances must be at least 1. Received: 0"),
        (["--ipus-per-replica=0", "p"], "--ipus-per-replica must be at least 1"),
        (
            ["--num-instances=2", "--num-replicas=3", "p"],
            "--num-instances must divide --num-replicas.* Received: 2 instances, 3 replicas",
        ),
        (
            ["--num-instances=3", "--num-replicas=3", "--host=a,b", "p"],
            "hosts must divide --num-instances. Received: 2 hosts, 3 instances",
        ),
        (["--only-output-from-instance=1", "p"], "must be below 1, the number of inst.*: 1"),
        (["--print-topology=maybe", "p"], "--print-topology must be yes or no. Received: 'maybe'"),
        (["--host=a", "--hostfile=b", "p"], "give --host or --hostfile, not both"),
        (
            ["--import-config=nowhere/file", "p"],
            "cannot read --import-config nowhere/file: No such",
        ),
        (["--export-config=nowhere/file", "p"], "cannot write --export-config nowhere/file: No su"),
    ],
)
def test_invalid_options_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        options(*words)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("a,b.example.org", ["a", "b.example.org"]),
        ("host[0-2,4]", ["host0", "host1", "host2", "host4"]),
        ("n[08-10]-ib, x", ["n08-ib", "n09-ib", "n10-ib", "x"]),
    ],
)
def test_lists_of_hosts(text, hosts):
    assert read_hosts(text) == tuple(hosts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,,b", "must name each host once.* Received: 'a,,b'"),
        ("a,a", "must name each host once"),
        ("a[1-2", "one pair of brackets.* Received: 'a\\[1-2'"),
        ("a[2-1]", "'2-1' is no range of numbers, such as 0-2"),
    ],
)
def test_lists_that_are_no_hosts(text, message):
    with pytest.raises(UsageError, match=message):
        read_hosts(text)


def test_files_of_hosts(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two\na slots=4\n\nb\n")
    assert read_host_file(file) == ("a", "b")
    assert options(f"--hostfile={file}", "--num-instances=2", "--num-replicas=2", "p").hosts == (
        *("a", "b"),
    )
    file.write_text("\n")
    with pytest.raises(UsageError, match="names no host: it needs a line for each"):
        read_host_file(file)
    with pytest.raises(UsageError, match="cannot read the hosts in .*: No such file"):
        read_host_file(tmp_path / "none")


def test_a_file_of_options_gives_what_the_command_line_does_not(tmp_path):
    file = tmp_path / "config.json"
    words = ["--num-instances=2", "--num-replicas=4", "--mpi-local-args=-x A", "-vv"]
    exported = options(*words, "--tag-output", f"--export-config={file}", "p")
    assert options(f"--import-config={file}", "p") == exported
    assert options(f"--import-config={file}", "--num-replicas=6", "p").replicas == 6
    file.write_text("no")
    with pytest.raises(UsageError, match="is no JSON"):
        options(f"--import-config={file}", "p")
    file.write_text("[]")
    with pytest.raises(UsageError, match="must hold an object, as --export-config writes"):
        options(f"--import-config={file}", "p")


def test_the_topology_says_where_replicas_and_ipus_are():
    found = options(
        *("--num-instances=2", "--num-replicas=4", "--ipus-per-replica=2", "--host=a,b", "p")
    )
    assert topology(found)[1] == {
        "instance": 1,
        "host": "b",
        "replicas": [2, 3],
        "ipus": [4, 5, 6, 7],
    }
    assert topology_text(found).splitlines() == [
        "instance  host  replicas  IPUs",
        "0         a     0-1       0-3",
        "1         b     2-3       4-7",
    ]
    assert json.dumps(topology(found))
    assert "0         chosen by mpirun  0         0" in topology_text(options("p"))


def test_ipu_tf_launch_reads_the_same_words(capsys):
    words = ["--mpi-global-args", "--allow-run-as-root", "--num-instances=2", "--num-replicas=3"]
    for command in (poprun.main, lambda words: cli.main(["launch", *words])):
        assert command([*words, "p"]) == 2
        assert "Received: 2 instances, 3 replicas" in capsys.readouterr().err


def test_bad_input_is_an_error_of_one_line(capsys):
    assert poprun.main(["--num-instances=2", "--num-replicas=3", "python3", "train.py"]) == 2
    assert capsys.readouterr().err.startswith("error: every instance has equally many replicas")


def test_the_version(capsys):
    with pytest.raises(SystemExit):
        poprun.main(["--version"])
    assert capsys.readouterr().out == f"poprun of ipu_tf {__version__}\n"


@pytest.mark.parametrize("allocation", [{}, {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}])
def test_the_command_lines_of_the_page(allocation, monkeypatch):
    """In an allocation of Slurm, mpirun finds the hosts itself: poprun names none."""
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"} | allocation)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lines = [line.removeprefix("poprun ") for line in PAGE.splitlines() if line[:7] == "poprun "]
    found = [options(*shlex.split(line)) for line in lines]
    assert {each.program[:2] for each in found} == {("ipu-tf", "run"), ("ipu-tf", "sweep")}
    lists = [
        mpi_command(Mpi(path="m", family=family), each, Arguments(), ["i"])
        for each in found[:3]
        for family in Family
    ]
    open_mpi = ["--oversubscribe", "--bind-to", "none", "-x", "PATH", "i"]
    assert lists == [
        *(["m", "-n", "2", "i"], ["m", "-n", "2", *open_mpi]),
        ["m", "-n", "4", "-hosts", "node1,node2", "-ppn", "2", "i"],
        ["m", "-n", "4", "--host", "node1:2,node2:2", *open_mpi],
        *(["m", "-n", "4", "i"], ["m", "-n", "4", *open_mpi]),
    ]


def test_the_page_lists_every_option():
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    names = {name for name in parser.format_help().split() if name.startswith("--")}
    names = {name.strip(",[]") for name in names} - {*WITHOUT_EFFECT, "--verbose", "--vv", "--sync"}
    assert len(names) >= 15
    assert sorted(name for name in names if f"`{name}" not in PAGE) == []
