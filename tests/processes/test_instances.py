"""The launcher's variables say which process of which job this is."""

import pytest

from ipu_tf.processes.instances import INDEPENDENT, Instances, LaunchError, instances


def job(index=1, **changes):
    """The third and fourth of four replicas, in the second of two instances."""
    told = {
        "index": index,
        "count": 2,
        "local_index": index,
        "total_replicas": 4,
        "local_replicas": 2,
        "replica_offset": 2 * index,
        "ipus_per_replica": 3,
        "launcher": "poprun",
    }
    return Instances(**told | changes)


@pytest.mark.parametrize(
    "of_mpi",
    [
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "8"},
    ],
)
def test_variables_lead_back_to_the_instance(of_mpi):
    assert instances(job().variables() | of_mpi) == job()
    assert job().is_launched


def test_variables_have_the_vendors_names():
    assert job().variables() == {
        "POPDIST_NUM_TOTAL_REPLICAS": "4",
        "POPDIST_NUM_LOCAL_REPLICAS": "2",
        "POPDIST_REPLICA_INDEX_OFFSET": "2",
        "POPDIST_NUM_IPUS_PER_REPLICA": "3",
        "POPDIST_LOCAL_INSTANCE_INDEX": "1",
        "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
    }


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "4"},  # One process of an allocation.
        {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "4"},
        {"SLURM_NTASKS": "1"},
        {"PMI_SIZE": "many"},
        {"PMI_SIZE": "2", "PMI_RANK": "1", INDEPENDENT: "1"},
        job().variables() | {INDEPENDENT: "1"},
    ],
)
def test_a_process_that_poprun_did_not_start_is_alone(environment):
    found = instances(environment)
    assert found == Instances()
    assert not found.is_launched


@pytest.mark.parametrize("of_mpi", [{}, {"PMI_RANK": "0", "PMI_SIZE": "1"}])
def test_the_only_instance_of_a_job_has_all_replicas(of_mpi):
    alone = Instances(total_replicas=4, local_replicas=4, launcher="poprun")
    assert instances(alone.variables() | of_mpi) == alone
    assert instances(alone.variables() | of_mpi).is_launched


@pytest.mark.parametrize(
    ("environment", "count", "variable"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "3"}, 3, "OMPI_COMM_WORLD_SIZE"),
        ({"PMI_SIZE": "2", "PMI_RANK": "1"}, 2, "PMI_SIZE"),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 8, "SLURM_STEP_NUM_TASKS"),
        ({"SLURM_NTASKS": "8"}, 8, "SLURM_NTASKS"),
    ],
)
def test_processes_of_another_launcher_are_refused(environment, count, variable):
    with pytest.raises(LaunchError) as caught:
        instances(environment)
    message = str(caught.value)
    assert f"{count} processes share this job, but poprun did not start them" in message
    assert f"`poprun --num-instances={count} --num-replicas=" in message
    assert f"unset {variable}; if" in message
    assert message.endswith(f"set {INDEPENDENT}=1. Received: {variable}={count}.")


def test_variables_without_mpi_are_refused():
    message = (
        "POPDIST_NUM_TOTAL_REPLICAS=4, POPDIST_NUM_LOCAL_REPLICAS=2 say that 2 instances share "
        "this job, but no mpirun started this process.*Start the job by `poprun .* or unset "
        "POPDIST_NUM_TOTAL_REPLICAS"
    )
    with pytest.raises(LaunchError, match=message):
        instances(job().variables())


@pytest.mark.parametrize("of_mpi", [{"PMI_RANK": "0", "PMI_SIZE": "2"}, {"PMI_SIZE": "8"}])
def test_variables_of_another_rank_are_refused(of_mpi):
    rank, size = of_mpi.get("PMI_RANK", "0"), of_mpi["PMI_SIZE"]
    message = (
        f"poprun say instance 1 of 2, those of MPI rank {rank} of {size}.*"
        "POPDIST_NUM_TOTAL_REPLICAS=4, POPDIST_NUM_LOCAL_REPLICAS=2, "
        f"POPDIST_REPLICA_INDEX_OFFSET=2,.* PMI_SIZE={size}"
    )
    with pytest.raises(LaunchError, match=message):
        instances(job().variables() | of_mpi)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"POPDIST_NUM_TOTAL_REPLICAS": "four"}, "of at least 1. Received: 'four'. Start the job"),
        ({"POPDIST_NUM_LOCAL_REPLICAS": "0"}, "LOCAL_REPLICAS must be a whole number of at least"),
        ({"POPDIST_REPLICA_INDEX_OFFSET": "-1"}, "of at least 0. Received: '-1'"),
        (
            {"POPDIST_NUM_TOTAL_REPLICAS": "3"},
            "2 instances of 2 replicas are not the job's 3. .* that --num-instances divides",
        ),
        (
            {"POPDIST_REPLICA_INDEX_OFFSET": "3"},
            "replica of instance 1 of 2 has the number 2. Received: .*OFFSET=3",
        ),
    ],
)
def test_variables_that_are_no_job_are_refused(changes, message):
    with pytest.raises(LaunchError, match=message):
        instances(job().variables() | {"PMI_RANK": "1", "PMI_SIZE": "2"} | changes)
