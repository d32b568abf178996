"""Gradients that a strided 1 x 1 convolution skips are filled in after the multiplication."""

import dataclasses

import numpy as np
import pytest

from ipu_tf.machine import target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan_bound import least_cycles, least_cycles_by
from ipu_tf.planner.plan_cost import plan_cost, plan_phases
from ipu_tf.planner.planner import plan_conv
from ipu_tf.planner.shapes import ConvShape

BOW = target("bow")
STRIDED = ConvShape(
    pass_="input_gradient",
    batch=8,
    in_rows=28,
    in_columns=28,
    in_channels=256,
    out_channels=512,
    kernel_rows=1,
    kernel_columns=1,
    out_rows=14,
    out_columns=14,
    strides=(2, 2),
    dtype="float16",
)


def cycles(shape):
    return plan_cost(shape, plan_conv(shape, BOW, partials="float16"), BOW)


def test_zeros_are_not_multiplied():
    dense = cycles(STRIDED.undilated)
    full = dataclasses.replace(STRIDED, out_rows=28, out_columns=28, strides=(1, 1))
    assert dense < cycles(STRIDED) < 1.5 * dense
    assert cycles(STRIDED) < 0.5 * cycles(full)


def test_the_result_is_dilated_at_the_end():
    plan = plan_conv(STRIDED, BOW, partials="float16")
    phases = plan_phases(STRIDED, plan, BOW)
    assert phases[-1].name == "dilate"
    assert phases[-1].total_cycles > 0
    assert plan_phases(STRIDED.undilated, plan, BOW)[-1].name == "cast"


@pytest.mark.parametrize(
    "changes",
    [
        {"pass_": "forward"},
        {"strides": (1, 1), "out_rows": 28, "out_columns": 28},
        {"kernel_rows": 3, "padding": (1, 1, 0, 0)},
    ],
)
def test_other_convolutions_skip_nothing(changes):
    assert dataclasses.replace(STRIDED, **changes).undilated is None


def test_the_bound_is_below_the_cost():
    plan = plan_conv(STRIDED, BOW, partials="float16")
    cost = plan_cost(STRIDED, plan, BOW)
    assert np.all(least_cycles(STRIDED, Candidates.of(plan), BOW) <= cost)
    assert least_cycles_by(plan.method, STRIDED, plan.partials, BOW) <= cost
