"""Files of other computers, which `--offline` refuses."""

import keras
import pytest
import tensorflow as tf

from ipu_tf.compat.offline import way_out, without_downloads
from ipu_tf.compat.offline.network import OfflineError

READS = {
    "exists": tf.io.gfile.exists,
    "glob": tf.io.gfile.glob,
    "listdir": tf.io.gfile.listdir,
    "GFile": lambda path: tf.io.gfile.GFile(path).read(),
    "write": lambda path: tf.io.gfile.GFile(path, "w").write("a"),
    "v1": tf.compat.v1.gfile.Exists,
    "read_file": lambda path: tf.io.read_file(path),
    "records": tf.data.TFRecordDataset,
    "lines": lambda path: tf.data.TextLineDataset([path, path]),
    "tensor": lambda path: tf.data.TFRecordDataset(tf.constant([path])),
    "list_files": lambda path: tf.data.Dataset.list_files(path),
    "checkpoint": tf.train.latest_checkpoint,
    "get_file": lambda path: keras.utils.get_file("a", origin=path),
}


@pytest.mark.parametrize("name", READS)
def test_files_of_other_computers_are_refused(name):
    with without_downloads(), pytest.raises(OfflineError, match="No download of gs://bucket/a"):
        READS[name]("gs://bucket/a")


def test_files_of_this_computer_are_read(tmp_path):
    path = str(tmp_path / "lines")
    with without_downloads():
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("a\nb")
        assert tf.io.gfile.listdir(str(tmp_path)) == ["lines"]
        lines = tf.data.TextLineDataset(tf.data.Dataset.list_files(f"{path}*"))
        assert list(lines.as_numpy_iterator()) == [b"a", b"b"]


def test_stock_functions_are_there_afterwards():
    before = tf.data.TFRecordDataset.__init__, tf.io.read_file
    with without_downloads():
        assert tf.io.read_file is not before[1]
    assert (tf.data.TFRecordDataset.__init__, tf.io.read_file) == before


def test_an_error_of_a_remote_file_names_the_flag():
    error = tf.errors.PermissionDeniedError(None, None, "while reading gs://bucket/a")
    assert "`ipu-tf run --offline`" in way_out(error)
