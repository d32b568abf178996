"""Records of whole models are predicted as they are configured; others are named."""

import json

import keras
import pytest

import ipu_tf
from ipu_tf import IPUConfig, cli, zoo
from ipu_tf.calibration import compare, load_records
from ipu_tf.calibration.comparison_text import to_text
from ipu_tf.calibration.predict import prediction
from ipu_tf.validation import PREDICTORS
from ipu_tf.validation.document import POINTS
from ipu_tf.validation.model_params import model_params
from ipu_tf.zoo.stage_placement import WHOLE, chain

PARAMS = {
    "network": "perceptron",
    "training": True,
    "ipus": 4,
    "micro_batch": 2,
    "accumulation": 8,
    "replicas": 2,
    "stages": ["1"],
    "recompute": True,
    "partials": "float16",
    "optimizer": "adam",
    "dropout": 0.5,
}


def perceptron(*, dropout=0.0, placement=WHOLE):
    """A network that compiles fast; its blocks are "0" and "1"."""
    layers = keras.layers

    def hidden(x):
        return layers.Dropout(dropout)(layers.Dense(64, activation="relu")(x))

    inputs = keras.Input((32,))
    blocks = [("0", hidden), ("1", layers.Dense(4, activation="softmax"))]
    return keras.Model(inputs, chain(inputs, blocks, placement))


@pytest.fixture(autouse=True)
def _networks(monkeypatch):
    network = zoo.Network(make=perceptron, optimizer="sgd", loss="sparse_categorical_crossentropy")
    monkeypatch.setitem(zoo.NETWORKS, "perceptron", network)


@pytest.fixture
def record(make):
    """Makes the record of a small model."""

    def record_(dtype="float16", chip="bow", unit="items/s", **changes):
        params = {**PARAMS, **changes}
        given = {name: value for name, value in params.items() if value is not None}
        return make("model", given, unit, dtype=dtype, chip=chip, measured=1000.0)

    return record_


def predicted(record):
    return prediction(record, PREDICTORS)


def test_a_model_on_one_ipu_is_predicted_as_estimated(record):
    changes = {"ipus": 1, "replicas": 1, "stages": None, "accumulation": None, "recompute": None}
    found = predicted(record(dtype="float32", partials=None, **changes))
    config = IPUConfig()
    config.auto_select_ipus = 1
    report = ipu_tf.estimate(
        lambda: zoo.compiled("perceptron", optimizer="adam", dropout=0.5),
        batch_size=2,
        config=config,
    )
    assert found.figure == report.programs[0].device.samples_per_second


@pytest.mark.slow
def test_a_pipeline_is_predicted_with_its_parts(record):
    found = predicted(record())
    assert found.figure > 0
    for part in ("host", "other stages", "Dense", "fullest tile", "of 624 KiB"):
        assert part in found.explanation
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.slow
def test_recomputation_and_accumulation_act(record):
    rates = [
        predicted(record(**changes)).figure
        for changes in ({}, {"recompute": False}, {"accumulation": 64})
    ]
    assert rates[0] < rates[1]
    assert rates[0] < rates[2]


@pytest.mark.slow
def test_io_tiles_hide_transfers(record):
    waiting, beside = (predicted(record(**changes)) for changes in ({}, {"num_io_tiles": 32}))
    assert beside.figure > waiting.figure


@pytest.mark.slow
def test_state_in_streaming_memory_takes_time(record):
    away = {"offload_weight_update_variables": True}
    here, found, shared = (
        predicted(record(**changes))
        for changes in ({}, away, {**away, "replicated_optimizer_state_sharding": True})
    )
    assert found.figure < shared.figure
    assert found.figure < here.figure


@pytest.mark.slow
def test_a_head_that_reads_the_embeddings_takes_no_ipu(record, monkeypatch):
    def tied(*, placement=WHOLE):
        dense = keras.layers.Dense
        names = ("0", "1", "head")
        blocks = [(name, dense(8, activation="softmax")) for name in names]
        inputs = keras.Input((8,))
        return keras.Model(inputs, chain(inputs, blocks, placement))

    network = zoo.Network(
        make=tied, optimizer="sgd", loss="sparse_categorical_crossentropy", reads_embeddings=True
    )
    monkeypatch.setitem(zoo.NETWORKS, "tied", network)
    written, left_out = (
        predicted(record(network="tied", dropout=None, stages=stages)).figure
        for stages in (["1", "head"], ["1"])
    )
    assert written == left_out > 0


@pytest.mark.slow
def test_predictions_of_a_model(record):
    training, inference = (predicted(record(training=flag)).figure for flag in (True, False))
    assert inference > training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "alexnet"}, "the zoo has no network 'alexnet'; it has .*resnet50"),
        ({"warmup": 3}, "a model has no parameter 'warmup'. Known are network, .*dropout"),
        ({"replicas": 3}, "4 IPUs do not divide into 3 replicas of 2 IPUs.*write replicas"),
        ({"stages": []}, "4 IPUs do not divide into 2 replicas of 1 IPUs"),
        ({"dtype": "float9"}, "dtype must be one of float16, .*, and is 'float9'"),
        ({"dtype": "bf16"}, "dtype must be one of .* and is 'bf16'"),
        ({"partials": "int8"}, "partials must be one of .*, and is 'int8'"),
        ({"micro_batch": None}, "needs the parameter 'micro_batch'"),
        ({"micro_batch": 2.5}, "'micro_batch' must be a positive whole number"),
        ({"training": "yes"}, "the parameter 'training' must be true or false, and is 'yes'"),
        ({"stages": "1"}, "the parameter 'stages' must be a list of blocks, and is '1'"),
        ({"stages": ["9"]}, "the network has no block '9'"),
        ({"optimizer": "magic"}, "take the optimizers .*Received: 'magic'"),
        ({"availableMemoryProportion": 2}, "'availableMemoryProportion' must be above 0.*is 2"),
        ({"num_io_tiles": 0}, "'num_io_tiles' must be a positive whole number"),
        ({"num_io_tiles": 1472}, "'num_io_tiles' must leave some of the 1472 tiles.*is 1472"),
        ({"unit": "GB/s"}, "has no figure in bytes per second"),
    ],
)
def test_records_that_cannot_be_predicted(record, changes, message):
    with pytest.raises(ValueError, match=message):
        predicted(record(**changes))


def test_such_records_are_named_and_counted(record):
    comparison = compare([record(network="alexnet")], PREDICTORS)
    assert to_text(comparison).splitlines()[1:] == [
        f"made: not predicted: the zoo has no network 'alexnet'; it has {', '.join(zoo.NETWORKS)}",
        "1 of 1 not predicted",
    ]


@pytest.mark.slow
def test_the_command_shows_the_rows_of_models(record, tmp_path, capsys):
    path = tmp_path / "models.json"
    entry = {"id": "small", "kind": "model", "chip": "bow", "dtype": "float16"}
    entry |= {"params": PARAMS, "measured": 1000, "unit": "items/s"}
    path.write_text(json.dumps({"what": "small", "networks": {}, "records": [entry]}))
    assert cli.main(["validate", str(path)]) == 0
    printed = capsys.readouterr().out
    heads = ["record", "predicted", "measured", "ratio", "consists", "of"]
    assert heads in [line.split() for line in printed.splitlines()]
    assert "1 rows of 1 networks: off by a median factor of" in printed


def test_the_rows_of_models_are_configurations_that_the_zoo_takes():
    records = load_records(POINTS / "models.json")
    for one in records:
        params = model_params(one, zoo.network(one.params["network"]).options)
        assert params.replicas * params.micro_batch * params.accumulation > 0
    assert len(records) == 9
