"""What one instance of a host makes for all: made once, of this user alone, gone with the job."""

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ipu_tf.processes.job_folder import (
    FOLDER,
    JobFolder,
    job_folder,
    make_job_folder,
    remove_job_folder,
)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "job"
    made.mkdir(mode=0o700)
    return made


def test_a_value_is_made_once_and_the_others_wait_for_it(folder):
    made = []

    def make():
        time.sleep(0.05)
        made.append(threading.get_ident())
        return {"of": made[0]}

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: JobFolder(folder).get("program", make), range(3)))
    assert len(made) == 1
    assert found == [{"of": made[0]}] * 3
    assert JobFolder(folder).get("another", lambda: 7) == 7


def test_errors_are_not_shared(folder):
    def fail():
        raise MemoryError("no")

    for _ in range(2):
        with pytest.raises(MemoryError, match="no"):
            JobFolder(folder).get("program", fail)
    assert JobFolder(folder).get("program", lambda: 1) == 1


def test_a_value_that_cannot_be_made_is_tried_once(folder):
    tries = []

    def fail():
        tries.append(1)
        raise OSError("no such chip")

    with pytest.raises(OSError, match="no such chip"):
        JobFolder(folder).get("program", fail)
    assert len(tries) == 1


def test_a_full_disk_loses_no_value(folder, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ipu_tf.processes.job_folder.write_whole", full)
    with caplog.at_level(logging.WARNING):
        assert JobFolder(folder).get("program", lambda: 3) == 3
    assert "No space left" in caplog.text


def test_without_the_folder_each_makes_its_own_and_says_so(folder, caplog):
    shared = JobFolder(folder)
    remove_job_folder(folder)
    with caplog.at_level(logging.WARNING):
        assert [shared.get("program", lambda value=value: value) for value in (1, 2)] == [1, 2]
    assert "make program themselves: [Errno 2]" in caplog.text


def test_only_a_folder_of_this_user_alone_is_used(folder, tmp_path, monkeypatch):
    assert job_folder({}) is None
    assert job_folder({FOLDER: str(folder)}) is not None
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert job_folder({FOLDER: str(link)}) is None
    folder.chmod(0o755)
    assert job_folder({FOLDER: str(folder)}) is None
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert job_folder({FOLDER: str(folder)}) is None


def test_all_instances_of_a_host_make_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = make_job_folder("0123")
    assert made == make_job_folder("0123")
    assert made is not None
    assert made.stat().st_mode & 0o777 == 0o700
    (made / "program").write_bytes(b"1")
    remove_job_folder(made)
    assert not made.exists()
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert make_job_folder("0123") != made
    (tmp_path / "ipu_tf-job-4567-another").write_text("somebody else's")
    assert make_job_folder("4567") is None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert make_job_folder("0123") is None
