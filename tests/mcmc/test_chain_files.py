"""Files of chains: whole, of one run at a time, and as they were written."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ipu_tf import mcmc
    from ipu_tf.mcmc.chain_files import ChainFiles, chain_files
    from ipu_tf.mcmc.directory_lock import lock

DRAWS = [np.arange(6, dtype="float32").reshape(2, 3), np.array([True, False])]
STATE = [np.ones((1, 2), "float32"), np.array([[1, 2]], "int32")]


@pytest.fixture
def written(tmp_path):
    files = ChainFiles(tmp_path, {"seed": 1})
    for index in range(2):
        files.write_block(index, [index + DRAWS[0], DRAWS[1]])
    files.write_state(2, STATE)
    return tmp_path


def read(directory):
    files = ChainFiles(directory, {"seed": 1})
    blocks, state = files.read_state()
    return state, [files.read_block(index) for index in range(blocks)]


def test_files_hold_what_was_written(written):
    state, blocks = read(written)
    for found, wanted in zip(state, STATE, strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)
    for index, (numbers, flags) in enumerate(blocks):
        np.testing.assert_array_equal(numbers, index + DRAWS[0], strict=True)
        np.testing.assert_array_equal(flags, DRAWS[1], strict=True)


def test_a_run_that_goes_on_keeps_the_blocks_before(written):
    files = ChainFiles(written, {"seed": 1})
    files.read_state()
    files.write_block(2, DRAWS)
    files.write_state(3, STATE)
    assert len(read(written)[1]) == 3


def with_other_numbers(path):
    with np.load(path) as file:
        arrays = [file[name] for name in file.files]
    arrays[-1] = np.logical_not(arrays[-1])
    np.savez(path, *arrays)


def with_other_bytes(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 128] ^= 1  # The first number.
    path.write_bytes(content)


def with_code(path):
    """A pickle, which NumPy would run."""
    np.savez(path, np.array([print], dtype=object))


DAMAGES = {
    "other numbers": with_other_numbers,
    "other bytes": with_other_bytes,
    "code": with_code,
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("chains"),
    "pickle": lambda path: path.write_bytes(np.zeros(3).dumps()),
    "no array": lambda path: np.savez(path),
}


@pytest.mark.parametrize("name", ["chains.npz", "block_000001.npz"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_a_way_out(written, name, damage):
    DAMAGES[damage](written / name)
    with pytest.raises(
        mcmc.DamagedChains, match=rf"{name}' is damaged or missing \(.+\). Restore .*begins anew"
    ):
        read(written)


def test_a_block_of_another_run_or_none_is_named(written):
    (written / "block_000000.npz").replace(written / "block_000001.npz")
    with pytest.raises(mcmc.DamagedChains, match=r"block_000000.npz' .*No such file"):
        read(written)
    ChainFiles(written, {"seed": 2}).write_block(0, DRAWS)
    with pytest.raises(mcmc.DamagedChains, match=r"block_000001.npz' .*its checksum is another"):
        read(written)


def test_a_full_disk_leaves_whole_files(tmp_path, monkeypatch):
    files = ChainFiles(tmp_path, {"seed": 1})
    files.write_block(0, DRAWS)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"block_000001.npz' \(No space left on device\).*make room"):
        files.write_block(1, DRAWS)
    assert [path.name for path in tmp_path.iterdir()] == ["block_000000.npz"]


def test_one_run_at_a_time_uses_a_directory(tmp_path):
    (tmp_path / ".0.unfinished").touch()
    with chain_files(tmp_path, {}):
        assert not list(tmp_path.glob("*.unfinished"))
        with (
            pytest.raises(
                mcmc.ChainsInUse,
                match=rf"Process {os.getpid()} samples into '{tmp_path}' .*use another directory",
            ),
            chain_files(tmp_path, {}),
        ):
            pass
    with chain_files(tmp_path, {}):  # The first has ended.
        pass


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        f"import fcntl, os; file = open({str(tmp_path / '.lock')!r}, 'w'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('locked', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with pytest.raises(mcmc.ChainsInUse), lock(tmp_path):
            pass
        other.kill()
        other.wait()
    with lock(tmp_path):
        pass
