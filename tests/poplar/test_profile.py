"""Cycles and reports of C++ programs, as the helper process models them."""

import shutil
import subprocess

import pytest

from ipu_tf import cli
from ipu_tf.poplar.programs import REPORT
from ipu_tf.profile.report import Report
from tests.poplar.conftest import PROGRAMS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ran(programs, tmp_path_factory):
    """The folder of the program that checks its cycles itself, after its run."""
    folder = tmp_path_factory.mktemp("profile")
    shutil.copy(PROGRAMS / "profile_codelets.cpp", folder)
    result = subprocess.run(
        [programs.program(PROGRAMS / "profile.cpp")],
        cwd=folder,
        env=programs.environment | {REPORT: str(folder / "report")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "cycles hold\n"), result.stderr
    return folder


def test_cycles_of_programs_hold(ran):
    (step,) = Report.from_json(ran / "profile.json").programs[0].device.steps
    assert (step.name, step.repeats, step.cycles) == ("dot of 100", 1, 60)


def test_engines_write_reports_that_the_command_line_reads(ran, capsys):
    names = {"report.json", "report.txt", "report.html", "report.pftrace"}
    first, second = ran / "report", ran / "report" / "engine_2"
    assert names <= {path.name for path in first.iterdir()}
    assert names == {path.name for path in second.iterdir()}
    report = Report.from_json(second / "report.json")
    assert "estimated from instructions" in report.programs[0].device.notes[0]
    assert cli.main(["report", str(second / "report.json")]) == 0
    assert "dot of 100" in capsys.readouterr().out
    assert cli.main(["compare", str(first / "report.json"), str(second / "report.json")]) == 0


def test_options_of_the_environment_write_reports(programs, tmp_path):
    def ran(options):
        result = subprocess.run(
            [programs.program(PROGRAMS / "faults.cpp"), "options of the environment"],
            cwd=PROGRAMS,
            env=programs.environment | {"POPLAR_ENGINE_OPTIONS": options},
            capture_output=True,
            text=True,
            check=False,
        )
        return result.stdout

    directory = f'"autoReport.directory": "{tmp_path}"'
    assert ran(f'{{"autoReport.all": true, {directory}}}') == "no error\n"
    assert (tmp_path / "report.json").is_file()
    for wrong in (
        "[1]",
        "{",
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": maybe}',
        '{"a": "b"} c',
        '{"a": "\\n"}',
    ):
        assert "must be a JSON object, such as" in ran(wrong)
    assert ran(' { "opt.b" : "c" , "debug.d" : 1e-3 } ') == ran("{}") == "no error\n"
    assert 'autoReport.all is "true" or "false". Received: "2"' in ran('{"autoReport.all": 2}')


def test_a_missing_package_is_named(programs, tmp_path):
    place = shutil.copytree(programs.place.prefix, tmp_path / "prefix")
    (place / "helper").write_text("/no/such/python\n/no/such/folder\n")
    (tmp_path / "profile_codelets.cpp").symlink_to(PROGRAMS / "profile_codelets.cpp")

    def words():
        result = subprocess.run(
            [programs.program(PROGRAMS / "profile.cpp")],
            cwd=tmp_path,
            env=programs.environment | {"LD_LIBRARY_PATH": str(place / "lib")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode != 0
        return result.stderr

    assert "its Python /no/such/python cannot be run: No such file or directory" in words()
    (place / "helper").unlink()
    assert "prefix/helper, which says where that is, is missing" in words()
