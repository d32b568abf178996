"""The Keras that scripts get."""

import pytest


@pytest.fixture(params=[3, pytest.param(2, marks=pytest.mark.slow)], ids=["keras3", "keras2"])
def keras(request):
    return request.param
