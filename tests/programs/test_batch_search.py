"""The numbers of samples that insights try."""

import dataclasses

import pytest

from ipu_tf.programs.batch_search import BatchSearch
from tests.profile.programs import device_program


@pytest.mark.parametrize(("now", "most"), [(8, 1024), (1000, 2000), (4096, 8192)])
def test_batches_stay_in_a_range_that_users_set(now, most):
    device = dataclasses.replace(device_program(), samples_per_run=now)
    search, tried = BatchSearch(device), []
    while (samples := search.next_samples()) is not None:
        tried.append(samples)
        search.add(samples, dataclasses.replace(device, samples_per_run=samples))
    assert max(tried) == most
