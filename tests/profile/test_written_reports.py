"""Reports, pages, traces and tables on a full disk: what was there before stays whole."""

import errno
import os
import time
from pathlib import Path

import pytest

from ipu_tf.profile import automatic_reports, compare
from ipu_tf.profile.report import Report
from ipu_tf.profile.report_formats import FORMATS, write_formats
from tests.profile.programs import device_program, overflowing, program


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def fill_the_disk(monkeypatch):
    def no_room(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(os, "fsync", no_room)


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_replaces_another_whole_or_not_at_all(name, tmp_path, fill_the_disk, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda _: "run")  # Names the profile for TensorBoard.
    write_formats(Report(programs=(program(device_program()),)), tmp_path, [name])
    before = contents(tmp_path)
    fill_the_disk()
    with pytest.raises(OSError, match="No space left") as raised:
        write_formats(Report(programs=(program(overflowing()),)), tmp_path, [name])
    assert contents(tmp_path) == before
    assert Path(raised.value.filename).resolve() in before


def test_so_does_the_page_of_a_comparison(tmp_path, fill_the_disk):
    report, page = Report(programs=(program(),)), tmp_path / "page.html"
    page.write_text("good")
    fill_the_disk()
    with pytest.raises(OSError, match=r"No space left on device: '.*page\.html'"):
        compare(report, report).to_html(page)
    assert page.read_text() == "good"


class Strategy:
    """A strategy with a report."""

    def record_host(self):
        pass

    def report(self, **_):
        return Report(programs=(program(),))


def test_the_end_of_a_process_names_the_file_it_cannot_write(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.json").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        monkeypatch.setenv(
            "POPLAR_ENGINE_OPTIONS",
            f'{{"autoReport.all": "true", "autoReport.directory": "{folder}"}}',
        )
        automatic_reports.watch(Strategy())
    automatic_reports.write_now()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"report: cannot write {tmp_path}/report.json: Is a directory"
    assert lines[-1] == f"report: {tmp_path}/other/report.html"
