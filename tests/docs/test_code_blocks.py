"""The Python blocks of the documents run as they are printed, in the order of their page."""

import re
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
import ipu_tf.compat.popdist.tensorflow  # A part of `popdist`.
import ipu_tf.distributed
from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.compat import popdist
from ipu_tf.keras.layers import CaptureActivationGradients
from ipu_tf.keras.optimizers import AdamIpuOptimizer, ALSOptimizer

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"machines.md"}
"""Pages with a test of their own."""
PAGES = {page.name: BLOCK.findall(page.read_text()) for page in sorted(DOCS.glob("*.md"))}


def small_model():
    return keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(4)])


def keras_page():
    """The objects of the page on Keras: a strategy, and a model made in its scope."""
    IPUConfig().configure_ipu_system()
    strategy = IPUStrategy()
    with strategy.scope():
        model = small_model()
    return {"keras": keras, "strategy": strategy, "model": model}


def pipelining_page():
    """The objects of the page on pipelining: a model of two stages on four IPUs."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        model = small_model()
        model.compile("sgd", "mse", steps_per_execution=4)
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    return {"ipu_tf": ipu_tf, "model": model, "cfg": cfg}


def serving_page():
    """The objects of the page on serving: a strategy, a model made in its scope, and inputs."""
    return {**keras_page(), "tf": tf, "images": np.zeros((16, 16), "float32")}


def distributed_page():
    """The objects of the page on several processes: the vendor's modules, data and a model."""
    x, y = np.zeros((128, 16), "float32"), np.zeros((128, 4), "float32")
    return {
        "dataset": tf.data.Dataset.from_tensor_slices((x, y)),
        "ipu": SimpleNamespace(config=ipu_tf.config, distributed=ipu_tf.distributed),
        "make_model": small_model,
        "popdist": popdist,
    }


GIVEN = {
    "config.md": dict,
    "distributed.md": distributed_page,
    "graphs.md": dict,
    "keras.md": keras_page,
    "layers.md": lambda: {
        "keras": keras,
        "CaptureActivationGradients": CaptureActivationGradients,
        "ALSOptimizer": ALSOptimizer,
        "AdamIpuOptimizer": AdamIpuOptimizer,
        "loss": "mse",
    },
    "mcmc.md": dict,
    "nonfinite.md": lambda: {"ipu_tf": ipu_tf},
    "pipelining.md": pipelining_page,
    "replicas.md": dict,
    "report.md": lambda: {
        "keras": keras,
        "ipu_tf": ipu_tf,
        "model": small_model(),
        "np": np,
    },
    "serving.md": serving_page,
    "sweep.md": dict,
    "zoo.md": lambda: {"strategy": IPUStrategy()},
}
"""The names that the blocks of a page take as given."""
SLOW = {"mcmc.md", "pipelining.md", "report.md", "sweep.md", "zoo.md"}
"""Pages that estimate whole networks, or that XLA compiles."""


def test_every_page_with_code_is_run():
    with_code = {name for name, blocks in PAGES.items() if blocks}
    assert with_code - ELSEWHERE == GIVEN.keys()


@pytest.fixture
def configuration():
    """Leaves no configuration of a page to the tests that follow."""
    yield
    config.reset_ipu_configuration()


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of Keras, which saves a model
@pytest.mark.filterwarnings("ignore:distutils")  # of TensorFlow Probability
@pytest.mark.usefixtures("configuration")
@pytest.mark.parametrize(
    "page",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in GIVEN],
)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = GIVEN[page]()
    for block in PAGES[page]:
        exec(compile(block, str(DOCS / page), "exec"), names)
