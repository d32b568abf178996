"""`ipu-tf report`: text and pages of report files."""

import pytest

from ipu_tf import cli
from ipu_tf.profile.report import Report
from tests.profile.programs import device_program, program


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "report.json"
    Report(programs=(program(device_program()),)).to_json(path)
    return path


def test_it_prints_the_report(path, capsys):
    assert cli.main(["report", str(path)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == Report.from_json(path).summary()
    assert cli.main(["report", str(path), "--plans"]) == 0
    assert "4 tiles: rows 2, columns 2" in capsys.readouterr().out


def test_it_writes_a_page(path, capsys):
    page = path.with_suffix(".html")
    assert cli.main(["report", str(path), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"Wrote {page}: open it in a browser.\n"
    Report.from_json(path).to_html(path.with_suffix(".wanted"))
    assert page.read_text() == path.with_suffix(".wanted").read_text()


def test_a_page_that_cannot_be_written_is_one_line(path, capsys):
    page = path.parent / "missing" / "out.html"
    assert cli.main(["report", str(path), "--html", str(page)]) == 2
    message = f"cannot write {page}: there is no folder {page.parent}."
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize("command", ["report", "open"])
def test_files_that_hold_no_report_are_one_line(path, capsys, command):
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert cli.main([command, str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path} is not valid JSON: ")
    path.write_text("{}")
    assert cli.main([command, str(path)]) == 2
    assert f"error: {path} is not a report" in capsys.readouterr().err
    path.unlink()
    assert cli.main([command, str(path)]) == 2
    assert capsys.readouterr().err == f"error: cannot read {path}: No such file or directory.\n"
