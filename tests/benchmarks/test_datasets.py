"""The datasets of benchmarks: whole batches, again and again, and nothing that tunes itself."""

import numpy as np

from benchmarks.datasets import endless


def test_whole_batches_come_again_and_again():
    x, y = np.arange(7.0), np.arange(7)
    batches = list(endless((x, y), 3).take(5).as_numpy_iterator())
    assert [batch[1].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]] * 2 + [[0, 1, 2]]
    assert all((a == b).all() for a, b in batches)


def test_nothing_tunes_itself():
    dataset = endless(np.zeros((4, 2)), 2)
    for each in (dataset, dataset.prefetch(2)):
        assert each.options().autotune.enabled is False
