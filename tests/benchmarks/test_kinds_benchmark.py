"""The benchmark of ten networks: its cases, its command, and one small measurement."""

import json
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as command
from benchmarks import kinds as benchmark
from benchmarks.kinds_networks import ALL_NETWORKS, BIG_NETWORKS, NETWORKS
from benchmarks.kinds_worker import OPTIMIZERS, Trainer, dataset_of
from ipu_tf import config


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


def test_each_network_has_a_ratio_that_is_wanted():
    assert list(NETWORKS) == list(benchmark.WANTED)
    assert len(NETWORKS) == 10
    assert list(BIG_NETWORKS) == list(benchmark.BIG_WANTED)


@pytest.mark.parametrize("name", NETWORKS)
def test_rounds_are_whole_executions(name):
    network = NETWORKS[name]
    assert network.optimizer in OPTIMIZERS
    for settings in benchmark.SETTINGS:
        assert network.steps % settings["steps_per_execution"] == 0


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "name",
    [
        *("graph", "unet", "lstm", "cnn", "residual", "transformer"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in BIG_NETWORKS),
    ],
)
def test_samples_fit_the_network(name):
    network = ALL_NETWORKS[name]
    inputs, labels = dataset_of(network).element_spec
    model = network.build()
    shapes = [tuple(spec.shape[1:]) for spec in (inputs if type(inputs) is tuple else [inputs])]
    assert shapes == [tensor.shape[1:] for tensor in model.inputs]
    assert tuple(labels.shape[1:]) == model.output_shape[1:-1]


def test_a_worker_trains_and_answers():
    trainer = Trainer(NETWORKS["mlp"], "sgd")
    reply = trainer.answer({"settings": {"steps_per_execution": 2}, "steps": 4})
    assert min(reply["images_per_second"], reply["first_step_seconds"]) > 0
    assert reply["peak_bytes"] > 1 << 20
    reply = trainer.answer({"settings": {"steps_per_execution": 2}, "steps": 4, "profile": True})
    assert 0 < reply["products_share"] < 1
    reply = trainer.answer({"settings": {"steps_per_execution": 2, "speed": 9}, "steps": 4})
    assert "speed" in reply["error"]


class FakeWorker:
    """Half as fast jitted; ipu_tf is three times as fast, its first step two seconds longer."""

    started = ()

    def __init__(self, engine, command, environment=None):
        self.engine = engine
        self.one_at_a_time = environment == {"TF_NUM_INTEROP_THREADS": "1"}
        FakeWorker.started = (*FakeWorker.started, (*command, engine))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request):
        tile = self.engine == "ipu_tf"
        speed = (60.0 if tile else 20.0) * request["settings"]["steps_per_execution"]
        return {
            "images_per_second": speed / 2 if request["settings"]["jit_compile"] else speed,
            "first_step_seconds": 4.0 if tile else 2.0,
            "peak_bytes": 110 if tile else 100,
            "products_share": 0.8 if self.one_at_a_time else 0.5,
        }

    def images_per_second(self, settings, steps):
        return self.ask({"settings": settings, "steps": steps})["images_per_second"]


def test_the_command_measures_the_fastest_settings_in_fresh_processes(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(benchmark, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "started", ())
    output = tmp_path / "kinds.json"
    arguments = ["kinds", "--only", "lstm", "--rounds", "2", "--restarts", "3"]
    assert command.main([*arguments, "--output", str(output)]) == 0
    assert len(FakeWorker.started) == 2 * (1 + 3) + 1
    assert FakeWorker.started[0] == ("benchmarks.kinds_worker", "lstm", "adam", "stock")
    result = json.loads(output.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert result["benchmark"] == "kinds"
    (network,) = result["results"]
    assert network["settings"]["stock"] == {"steps_per_execution": 10, "jit_compile": False}
    assert network["products"] == {"share_of_stock": 0.8, "bound": 1.25}
    assert network["ratio"]["median"] == result["geometric_mean"] == 3.0
    assert network["first_step_seconds"] == {"stock": 2.0, "ipu_tf": 4.0, "within_bounds": False}
    assert network["peak_bytes"]["within_bounds"] is True


def test_first_executions_have_the_steps_of_stock(monkeypatch):
    class StockIsFastestStepByStep(FakeWorker):
        def ask(self, request):
            steps = request["settings"]["steps_per_execution"]
            reply = super().ask(request) | {"first_step_seconds": float(steps)}
            if self.engine == "stock":
                reply["images_per_second"] = 20.0 / steps
            return reply

    monkeypatch.setattr(benchmark, "Worker", StockIsFastestStepByStep)
    monkeypatch.setattr(FakeWorker, "started", ())
    options = SimpleNamespace(optimizer="own", rounds=2, restarts=3, avx2=False)
    network = benchmark.measure("mlp", options)
    chosen = {engine: each["steps_per_execution"] for engine, each in network["settings"].items()}
    assert chosen == {"stock": 1, "ipu_tf": 10}
    assert network["first_step_seconds"] == {"stock": 1.0, "ipu_tf": 1.0, "within_bounds": True}
    assert len(FakeWorker.started) == 2 * (1 + 3 + 3) + 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_both_optimizers_can_be_measured(monkeypatch, optimizer):
    monkeypatch.setattr(benchmark, "Worker", FakeWorker)
    options = SimpleNamespace(optimizer=optimizer, rounds=1, restarts=1, avx2=False)
    assert benchmark.measure("mlp", options)["optimizer"] == optimizer


def test_big_networks_take_one_step_an_execution(monkeypatch):
    monkeypatch.setattr(benchmark, "Worker", FakeWorker)
    options = SimpleNamespace(
        optimizer="own", rounds=1, restarts=1, avx2=False, big=True, only="bert"
    )
    result = benchmark.run(options)
    assert result["benchmark"] == "kinds_big"
    (network,) = result["results"]
    assert network["settings"]["stock"] == {"steps_per_execution": 1, "jit_compile": False}
    assert network["peak_bytes"]["within_bounds"] is True


def test_a_network_on_avx2_alone_should_reach_stocks_speed(monkeypatch):
    monkeypatch.setattr(benchmark, "Worker", FakeWorker)
    options = SimpleNamespace(
        optimizer="own", rounds=1, restarts=1, avx2=True, big=False, only="lstm"
    )
    result = benchmark.run(options)
    assert result["benchmark"] == "kinds_avx2"
    assert result["results"][0]["wanted"] == 1.0


def test_a_run_is_short_by_default():
    options = command.parse(["kinds"])
    assert (options.only, options.optimizer) == ("", "own")
    assert (options.rounds, options.restarts) == (3, 1)


def test_processes_start_at_least_once(capsys):
    with pytest.raises(SystemExit):
        command.parse(["kinds", "--restarts", "0"])
    assert "--restarts must be at least 1. Received: 0" in capsys.readouterr().err
