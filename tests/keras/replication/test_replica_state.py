"""The values that variables have on each of several replicas."""

import pytest
import tensorflow as tf

from ipu_tf.keras.replication import replica_state
from ipu_tf.keras.replication.replica_state import ReplicaState, check_group
from ipu_tf.processes.instances import Instances


def states(seed, later):
    """The seeds of two replicas, as many as `later` of which come in other instances."""
    variable = tf.Variable([seed, 0], dtype=tf.int64)
    state = ReplicaState([variable], [variable], 2, later)
    found = []
    for replica in (0, 1):
        state.load(tf.constant(replica))
        variable.assign_add([0, 3])  # The program has drawn three times.
        found.append(int(variable[0]))
        state.store(tf.constant(replica))
    state.leave()
    return variable, state, found


def test_random_states_do_not_depend_on_the_instance():
    _, _, whole = states(7, 0)
    (first, of_first, earlier), (last, of_last, later) = states(7, 2), states(7, 0)
    assert later == whole
    assert len({*earlier, *later}) == 4
    # Between runs both have what one process would have, for files.
    assert first.numpy().tolist() == last.numpy().tolist() == [7, 3]
    for state in (of_first, of_last):
        state.broadcast_changes()
    of_first.load(tf.constant(1))
    assert first.numpy().tolist() == [earlier[1], 3]  # Nothing was changed from outside.


def test_a_restored_state_is_spread_anew():
    restored, state, _ = states(7, 2)
    _, _, expected = states(9, 2)
    restored.assign([9, 0])
    state.broadcast_changes()
    state.load(tf.constant(0))
    assert restored.numpy().tolist() == [expected[0], 0]


@pytest.mark.parametrize(
    ("replicas", "count", "group"), [(4, 1, 2), (2, 2, 4), (1, 4, 2), (2, 4, 4), (2, 3, 1)]
)
def test_a_group_lies_in_an_instance_or_has_whole_instances(monkeypatch, replicas, count, group):
    job = Instances(count=count, total_replicas=count * replicas, local_replicas=replicas)
    monkeypatch.setattr(replica_state, "instances", lambda: job)
    check_group(replicas, group)
    with pytest.raises(ValueError, match=rf"must divide .* 5, with {replicas * count} replicas"):
        check_group(replicas, 5)


def test_a_group_that_cuts_through_an_instance_is_refused(monkeypatch):
    job = Instances(count=3, total_replicas=6, local_replicas=2)
    monkeypatch.setattr(replica_state, "instances", lambda: job)
    with pytest.raises(ValueError, match="multiple of the replicas of an .* 3, with 2 of 6 repl"):
        check_group(2, 3)
