"""Files that are whole at any time."""

from pathlib import Path

import keras
import pytest

from ipu_tf.keras.saving.whole_files import whole_file
from tests.keras.small_models import sequential


def test_a_file_is_replaced_once_it_is_whole(tmp_path):
    file = tmp_path / "model.keras"
    file.write_text("earlier")
    with whole_file(file, is_file=True) as part:
        Path(part).write_text("later")
        assert part.endswith("model.keras")
        assert file.read_text() == "earlier"
    assert file.read_text() == "later"
    assert [*tmp_path.iterdir()] == [file]


def test_a_write_that_fails_leaves_the_earlier_file(tmp_path):
    file = tmp_path / "model.keras"
    file.write_text("earlier")

    def write():
        with whole_file(file, is_file=True) as part:
            Path(part).write_text("la")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()
    assert file.read_text() == "earlier"
    assert [*tmp_path.iterdir()] == [file]


def test_the_file_behind_a_link_is_replaced(tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "model.keras")
    with whole_file(link, is_file=True) as part:
        Path(part).write_text("later")
    assert link.is_symlink()
    assert (tmp_path / "model.keras").read_text() == "later"


@pytest.mark.parametrize("path", ["gs://bucket/model.keras", "missing/model.keras"])
def test_other_paths_are_left_to_the_writer(path, tmp_path):
    for where in (path, tmp_path):
        with whole_file(where, is_file=True) as same:
            assert same == where
    with whole_file("x.keras", is_file=False) as same:
        assert same == "x.keras"


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_a_failed_save_leaves_the_earlier_file(strategy, tmp_path, name, monkeypatch):
    with strategy.scope():
        model = sequential()
    save = model.save if name.endswith(".keras") else model.save_weights
    save(tmp_path / name)
    written = (tmp_path / name).read_bytes()

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(keras.layers.Dense, "save_own_variables", fail)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == written
    assert [path.name for path in tmp_path.iterdir()] == [name]
