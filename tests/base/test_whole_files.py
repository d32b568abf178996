"""Files that are written whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
import textwrap
import threading

import pytest

from ipu_tf.base.whole_files import whole_file, write_whole


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "page.html"
    write_whole(path, "ä")
    write_whole(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["page.html"]


def test_the_file_before_stays_if_the_block_raises(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("good")

    def stopped():
        with whole_file(path) as file:
            file.write(b"ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_text() == "good"
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.parametrize("size", [4096, 1 << 20])
def test_the_file_before_stays_if_the_disk_is_full(tmp_path, size):
    path = tmp_path / "report.json"
    path.write_text("good")
    # A limit on the size of files raises as a full disk does; a process keeps it.
    code = f"""
        import resource, signal
        from ipu_tf.base.whole_files import write_whole
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        write_whole({str(path)!r}, b"x" * {size})
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    found = subprocess.run(run, capture_output=True, text=True, check=False)
    assert f"OSError: [Errno {errno.EFBIG}] File too large: '{path}'" in found.stderr
    assert path.read_text() == "good"
    assert os.listdir(tmp_path) == ["report.json"]


def test_permissions_and_links_stay(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_new_files_have_the_permissions_of_any_other(tmp_path):
    write_whole(tmp_path / "ours", "")
    (tmp_path / "any").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_the_longest_name_works(tmp_path):
    path = tmp_path / ("n" * 255)
    write_whole(path, "content")
    assert path.read_text() == "content"


def test_a_pipe_is_written_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write_whole(path, "content")
    reader.join()
    assert found == [b"content"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("folder", IsADirectoryError),
        ("absent/report.json", FileNotFoundError),
        ("file/report.json", NotADirectoryError),
        ("n" * 256, OSError),
    ],
)
def test_errors_name_the_file(tmp_path, name, error):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(error) as raised:
        write_whole(tmp_path / name, "")
    assert raised.value.filename == str(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_file_that_must_not_be_written_stays(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("good")
    monkeypatch.setattr(os, "access", lambda *_: False)  # The superuser may write any file.
    with pytest.raises(PermissionError, match="report.json"):
        write_whole(path, "")
    assert path.read_text() == "good"
