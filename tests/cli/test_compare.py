"""`ipu-tf compare`: exit codes for CI, text and JSON."""

import json

import pytest

from ipu_tf import cli
from tests.profile.comparison.test_comparison import faster, report
from tests.profile.html.pages import data
from tests.profile.programs import device_program


@pytest.fixture
def files(tmp_path):
    before, after = tmp_path / "a.json", tmp_path / "b.json.gz"
    report(device_program()).to_json(before)
    report(faster()).to_json(after)
    return str(before), str(after)


def test_without_a_limit_it_only_prints(files, capsys):
    assert cli.main(["compare", *files]) == 0
    assert "faster, -10.00% seconds a sample" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limit", "code"), [("2%", 1), ("0.02", 1), ("10%", 0), ("0.1", 0), ("0", 1)]
)
def test_the_exit_code_says_whether_it_got_worse(files, capsys, limit, code):
    assert cli.main(["compare", *files, "--max-regression", limit]) == code
    assert ("regression: 'net.train_step': fullest tile" in capsys.readouterr().err) == bool(code)


def test_json(files, capsys):
    assert cli.main(["compare", *files, "--json", "--max-regression", "2%"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["programs"][0]["program"] == "net.train_step"
    assert len(found["regressions"]) == 1


@pytest.mark.parametrize("limit", ["many", "-1%", "nan", "inf", "%"])
def test_what_is_no_share(files, capsys, limit):
    assert cli.main(["compare", *files, f"--max-regression={limit}"]) == 2
    assert "takes a share such as 2% or 0.02. Received: " in capsys.readouterr().err


def test_files_that_are_no_reports(files, tmp_path, capsys):
    missing = tmp_path / "none.json"
    assert cli.main(["compare", str(missing), files[1]]) == 2
    assert f"cannot read {missing}: No such file" in capsys.readouterr().err
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    assert cli.main(["compare", files[0], str(bad)]) == 2
    assert "bad.json is not a report" in capsys.readouterr().err


def test_html(files, tmp_path, capsys):
    page = tmp_path / "compared.html"
    assert cli.main(["compare", *files, "--html", str(page)]) == 0
    (section,) = data(page.read_text())["sections"]
    assert section["title"] == "Program 'net.train_step': faster, -10.00% seconds a sample"
    layers = next(table for table in section["tables"] if table["title"] == "cycles by layer")
    assert ["net/dense", 900, 800, -100 / 900, "better"] in layers["rows"]
    assert "net/dense changed most, by -100 cycles" in section["charts"][0]["description"]
    assert cli.main(["compare", *files, "--html", str(tmp_path)]) == 2
    assert "cannot write" in capsys.readouterr().err
