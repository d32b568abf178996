import pytest

from ipu_tf.compiler.pipeline.deployment import Deployment


def test_defaults_put_each_stage_on_an_ipu():
    options = Deployment(stage_of_layers={"a": 0, "b": 2, "c": 1})
    assert options.stages == 3
    assert options.ipus == (0, 1, 2)
    assert options.replica_ipus == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage_of_layers": {}}, "stage_of_layers must give layers stages from 0 on"),
        ({"stage_of_layers": {"a": -1}}, "stage_of_layers must give layers stages from 0 on"),
        ({"ipu_of_stages": (0,)}, "must name the IPU of each of 2 stages"),
        ({"ipu_of_stages": (0, -1)}, "must be numbers of IPUs from 0 on"),
        ({"schedule": "fast"}, "schedule must be one of 'grouped', .* Received: 'fast'"),
        ({"micro_batches": 0}, "micro_batches must be a positive int. Received: 0"),
        ({"replicas": True}, "replicas must be a positive int. Received: True"),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Deployment(**({"stage_of_layers": {"a": 0, "b": 1}} | changes))
