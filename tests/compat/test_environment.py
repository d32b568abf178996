"""The file that installs the vendor's names in every Python of an environment."""

import json
import subprocess
import sys

import pytest

from ipu_tf.cli import main
from ipu_tf.compat import environment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(tmp_path))
    return tmp_path


def test_enabling_writes_one_file_and_disabling_removes_it(folder, capsys):
    assert main(["compat", "--enable"]) == 0
    (written,) = folder.iterdir()
    assert str(written) in capsys.readouterr().out
    assert main(["compat", "--enable"]) == 0
    assert main(["compat", "--disable"]) == 0
    assert not list(folder.iterdir())
    assert main(["compat", "--disable"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_what_it_did_is_data_too(folder, capsys):
    file = str(environment.path())
    for option, wanted in (
        ("--enable", {"enabled": True, "file": file}),
        ("--disable", {"enabled": False, "file": file}),
        ("--disable", {"enabled": False, "file": None}),
    ):
        assert main(["compat", option, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == wanted


def test_a_file_of_another_content_is_left_alone(folder, capsys):
    environment.path().write_text("import mine\n")
    for option in ("--enable", "--disable"):
        assert main(["compat", option]) == 2
        assert "holds something else than ipu_tf writes" in capsys.readouterr().err
    assert environment.path().read_text() == "import mine\n"


def test_one_of_the_options_is_required(capsys):
    with pytest.raises(SystemExit):
        main(["compat"])
    assert "--enable --disable is required" in capsys.readouterr().err


def test_a_python_that_reads_the_file_knows_the_names(folder):
    environment.enable()
    code = (
        f"import site; site.addsitedir({str(folder)!r}); import sys\n"
        "assert 'tensorflow' not in sys.modules and 'numpy' not in sys.modules\n"
        "import popdist; print(popdist.getNumInstances())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_python_without_this_package_reads_the_file_without_a_word(folder):
    environment.enable()
    code = (
        f"import sys; sys.modules['ipu_tf'] = None\nimport site; site.addsitedir({str(folder)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
