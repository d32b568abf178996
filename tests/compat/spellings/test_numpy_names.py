"""Names that NumPy has dropped, for scripts that use them."""

import numpy as np
import pytest

from ipu_tf.compat.spellings.context import spellings_of_tensorflow


def test_numpy_has_the_names_that_it_dropped(of_scripts, notices):
    assert (np.int(3.5), np.float("2")) == (3, 2.0)
    assert np.zeros(2, dtype=np.object).dtype == object
    assert np.isnan(np.NaN)
    assert -np.Inf == np.NINF
    assert np.product([2, 3]) == 6
    assert np.asfarray([1, 2], dtype=np.int32).dtype == np.float64
    assert np.asscalar(np.array([4])) == 4
    np.testing.assert_array_equal(np.msort([[2, 1], [1, 3]]), [[1, 1], [2, 3]])
    (notice,) = notices()  # However often.
    assert notice.startswith("An earlier spelling, `np.int`, `np.float`")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = np.nothing


def test_numpy_is_stock_outside_of_scripts():
    with spellings_of_tensorflow():
        assert np.int is int
    with pytest.raises(AttributeError, match="`np.int` was a deprecated alias"):
        _ = np.int
