"""The methods of gradient accumulation."""

import pytest

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method


@pytest.mark.parametrize("method", Method)
def test_parse(method):
    for spelling in (method, method.name, method.name.lower()):
        assert Method.parse(spelling) is method


@pytest.mark.parametrize("wrong", ["max", None, 3])
def test_parse_errors(wrong):
    message = f"Cannot parse {wrong} as one of GradientAccumulationReductionMethod.*SUM, MEAN"
    with pytest.raises(ValueError, match=message):
        Method.parse(wrong)
