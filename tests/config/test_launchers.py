"""Processes of a job that would each train alone are refused."""

import pytest

from ipu_tf import IPUConfig, IPUStrategy, cli
from ipu_tf.config.launchers import INDEPENDENT, check_one_process
from ipu_tf.processes.instances import Instances

TWO_INSTANCES = Instances(count=2, total_replicas=4, local_replicas=2, launcher="poprun")
ENVIRONMENT = TWO_INSTANCES.variables() | {"PMI_RANK": "0", "PMI_SIZE": "2"}


def test_several_instances_are_refused_and_one_runs():
    message = (
        "poprun started 2 instances, and the programs of an IPUStrategy are of one: .* Make a "
        r"PopDistStrategy .* poprun --num-instances=1 --num-replicas=4\. If the instances are "
        f"independent of each other, set {INDEPENDENT}=1"
    )
    with pytest.raises(RuntimeError, match=message):
        check_one_process(ENVIRONMENT)
    check_one_process(ENVIRONMENT | {INDEPENDENT: "1"})
    check_one_process(Instances(total_replicas=4, local_replicas=4).variables())


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
    monkeypatch.delenv(INDEPENDENT)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert cli.main(words) == 0  # What does not train may run in several instances.
    assert capsys.readouterr().out == "trained\n"
    with pytest.raises(RuntimeError, match="poprun started 2 instances"):
        IPUStrategy()
