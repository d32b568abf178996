"""Processes of a job that would each train alone are refused."""

import pytest

from ipu_tf import IPUConfig, IPUStrategy, cli
from ipu_tf.config.launchers import INDEPENDENT, check_one_process

TWO_INSTANCES = {"POPDIST_NUM_TOTAL_REPLICAS": "4", "POPDIST_NUM_LOCAL_REPLICAS": "2"}


@pytest.mark.parametrize(
    ("environment", "count", "advice"),
    [
        (
            TWO_INSTANCES,
            2,
            "unset POPDIST_NUM_TOTAL_REPLICAS and POPDIST_NUM_LOCAL_REPLICAS; if",
        ),
        ({"POPDIST_NUM_TOTAL_REPLICAS": "4"}, 4, "unset POPDIST_NUM_TOTAL_REPLICAS; if"),
        ({"OMPI_COMM_WORLD_SIZE": "3"}, 3, "unset OMPI_COMM_WORLD_SIZE; if"),
        ({"PMI_SIZE": "2", "PMI_RANK": "1"}, 2, "unset PMI_SIZE; if"),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 8, "unset SLURM_STEP_NUM_TASKS; if"),
        ({"SLURM_NTASKS": "8"}, 8, "unset SLURM_NTASKS; if"),
    ],
)
def test_several_processes_are_refused(environment, count, advice):
    with pytest.raises(RuntimeError) as caught:
        check_one_process(environment)
    message = str(caught.value)
    assert f"{count} processes share this job, but ipu_tf runs a job in one process" in message
    assert advice in message
    assert message.endswith(
        f"set {INDEPENDENT}=1. Received: "
        f"{', '.join(f'{k}={v}' for k, v in environment.items() if k in advice)}."
    )
    check_one_process(environment | {INDEPENDENT: "1"})


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"POPDIST_NUM_TOTAL_REPLICAS": "4", "POPDIST_NUM_LOCAL_REPLICAS": "4"},
        {"OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "4"},  # One process of an allocation.
        {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "4"},
        {"SLURM_NTASKS": "1"},
        {"PMI_SIZE": "many"},
    ],
)
def test_one_process_runs(environment):
    check_one_process(environment)


def test_devices_strategies_and_scripts_are_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "train.py").write_text("print('trained')")
    words = ["run", str(tmp_path / "train.py")]
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(RuntimeError, match="Received: PMI_SIZE=2"):
        IPUConfig().configure_ipu_system()
    with pytest.raises(RuntimeError, match="Received: PMI_SIZE=2"):
        IPUStrategy()
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: The environment says that 2 processes share this job")
    assert printed.out == ""
    monkeypatch.setenv(INDEPENDENT, "1")
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "trained\n"
