import pytest

from ipu_tf.planner.windows import (
    resolve_padding,
    same_padding,
    skips_positions,
    window_extent,
    window_reads,
)


@pytest.mark.parametrize("size", [1, 5, 8])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_gives_a_window_per_stride(size, kernel, stride, dilation):
    geometry = {"size": size, "kernel": kernel, "stride": stride, "dilation": dilation}
    zeros = same_padding(**geometry)
    assert window_extent(**geometry, padding=zeros) == -(-size // stride)
    assert 0 <= zeros[1] - zeros[0] <= 1


def test_windows_larger_than_the_image_do_not_fit():
    assert window_extent(size=3, kernel=5, stride=1, dilation=1, padding=(0, 0)) == 0


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_windows_read_each_position_under_a_tap_once(stride, dilation):
    for windows in range(1, 8):
        for kernel in range(1, 6):
            read = {w * stride + k * dilation for w in range(windows) for k in range(kernel)}
            found = window_reads(windows, kernel, stride=stride, dilation=dilation)
            assert found == len(read)
            assert skips_positions(windows, kernel, stride=stride, dilation=dilation) == (
                len(read) <= max(read)
            )


def resolve(padding):
    return resolve_padding(padding, sizes=(5, 6), kernel=(3, 2), strides=(1, 2), dilations=(1, 1))


def test_paddings_by_name():
    assert resolve("VALID") == (0, 0, 0, 0)
    assert resolve("SAME") == (1, 1, 0, 0)
    assert resolve([1, 2, 3, 4]) == (1, 2, 3, 4)


@pytest.mark.parametrize("padding", ["FULL", (1, 1), (0, 0, 0, -1)])
def test_other_paddings_are_refused(padding):
    with pytest.raises(ValueError, match=r'must be "SAME", "VALID" or four .* Received'):
        resolve(padding)
