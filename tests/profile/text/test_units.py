"""Units of figures."""

import pytest

from ipu_tf.profile.text import units


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4.0 KiB"),
        (624 << 10, "624.0 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (10_500_000, "10.0 MiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_memory_has_binary_prefixes(size_bytes, text):
    assert units.memory(size_bytes) == text
