"""Without norms, activation units or links, networks take as much less time as these parts did."""

import dataclasses

import keras
import pytest
from keras import layers

import ipu_tf
from ipu_tf import IPUConfig, zoo
from ipu_tf.machine import SYSTEMS
from ipu_tf.zoo.layers import Gelu
from ipu_tf.zoo.stage_placement import StagePlacement


def device(made, chip="bow", ipus=1):
    config = IPUConfig()
    config.simulator.chip = chip
    config.auto_select_ipus = ipus
    report = ipu_tf.estimate(made, batch_size=4, config=config, insights=False)
    return report.programs[0].device


def with_part(part):
    """Returns the device program of two convolutions with a part between them, if there is one."""

    def made():
        between = [part()] if part else []
        own = [layers.Conv2D(32, 3), *between, layers.Conv2D(32, 3), layers.Flatten()]
        model = keras.Sequential([keras.Input((16, 16, 32)), *own, layers.Dense(10)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    return device(made)


def cycles_of(program, name):
    """Returns the cycles of a layer, with those of its gradients."""
    steps = [step for stage in program.stages for step in stage.program.steps]
    return sum(step.cycles for step in steps if name in step.layer.split("/"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        lambda: layers.BatchNormalization(name="part"),
        lambda: layers.GroupNormalization(8, name="part"),
        lambda: layers.LayerNormalization(name="part"),
        lambda: Gelu(name="part"),
    ],
    ids=["batch norm", "group norm", "layer norm", "gelu"],
)
def test_without_a_part_a_step_takes_its_cycles_less(part):
    whole, bare = with_part(part), with_part(None)
    own = cycles_of(whole, "part")
    assert own > 0.02 * whole.cycles
    # Neighbours may lie elsewhere without it, and move less or more.
    assert whole.cycles - bare.cycles == pytest.approx(own, rel=0.5)


def pipelined():
    placement = StagePlacement(stages=("1",), checkpoints=())
    return zoo.pipelined("vit_b16", placement, micro_batches=8, image_size=32, depth=2, width=64)


@pytest.mark.slow
def test_without_links_the_stages_take_their_time_less():
    slow = SYSTEMS["bow-2000"]
    seconds = ("board_hop_seconds", "rail_hop_seconds", "turn_seconds", "message_seconds")
    free = dict.fromkeys(seconds, 1e-18)
    links = dataclasses.replace(slow.links, link_bytes_per_second=1e18, **free)
    fast = dataclasses.replace(slow, links=links)
    linked, apart = (device(pipelined, chip, ipus=2) for chip in (slow, fast))
    on_links = linked.timeline.link_cycles - apart.timeline.link_cycles
    assert on_links > 0.8 * linked.timeline.link_cycles
    assert linked.cycles - apart.cycles == pytest.approx(on_links, rel=0.1)
