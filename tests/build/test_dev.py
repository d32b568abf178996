"""The `./dev` script: its tasks and the errors of a machine that lacks something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def bare(tmp_path):
    """Runs `./dev` in a checkout without .venv, on a machine with nothing but core tools."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "cat", "dirname", "rm", "sha256sum"):
        (tools / name).symlink_to(shutil.which(name))
    for name in ("dev", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*arguments, **variables):
        environment = {"PATH": str(tools), "HOME": str(tmp_path)} | variables
        return subprocess.run(
            [str(tmp_path / "dev"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def add_tool(tmp_path, name, text):
    tool = tmp_path / "bin" / name
    tool.write_text(text)
    tool.chmod(0o755)


def test_without_a_task_lists_them(bare):
    result = bare()
    assert result.returncode == 0
    tasks = ("setup", "run", "demo", "test", "test-cpp", "lint", "format", "bench")
    assert all(task in result.stdout for task in tasks)


def test_unknown_task_is_named(bare):
    result = bare("deploy")
    assert result.returncode == 1
    assert "error: unknown task 'deploy'" in result.stderr


def test_missing_compiler_says_what_to_install(bare):
    result = bare("test")
    assert result.returncode == 1
    assert "no C++ compiler: g++ is not on PATH. Install g++" in result.stderr


def test_missing_python_says_which_versions(bare, tmp_path):
    add_tool(tmp_path, "g++", "#!/bin/sh\n")
    result = bare("test")
    assert result.returncode == 1
    assert "no Python 3.11, 3.12 or 3.13 with the venv module was found" in result.stderr
    assert "PYTHON=/path/to/python ./dev test" in result.stderr


def test_python_of_pyenv_is_found(bare, tmp_path):
    add_tool(tmp_path, "g++", "#!/bin/sh\n")
    python = tmp_path / "versions" / "3.12.1" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/bash\n[ "$1" = -m ] && echo "made: $*" && exit 5\nexit 0\n')
    python.chmod(0o755)
    result = bare("setup", PYENV_ROOT=str(tmp_path))
    assert "made: -m venv .venv" in result.stdout


PYTHON = """\
#!/bin/bash
case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"-m pip"*" install "*)
    echo "Downloading: $*"
    exit ${PIP_EXIT:-0} ;;
  *tomllib*)
    echo "tensorflow" ;;
  -c*)
    ;;
  *)
    echo "ran: $*${IPU_TF_BROWSER_TESTS:+, $IPU_TF_BROWSER_TESTS}" ;;
esac
"""
"""A Python that says what it is asked for, and makes a copy of itself as an environment."""


@pytest.fixture
def installable(bare, tmp_path):
    """Runs `./dev` in such a checkout, on a machine with a compiler and a Python."""
    add_tool(tmp_path, "g++", "#!/bin/sh\n")
    for name in ("cp", "mkdir"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    add_tool(tmp_path, "python3", PYTHON.replace("#!/bin/bash", f"#!{shutil.which('bash')}"))
    return bare


def test_installing_takes_one_line_and_its_words_are_logged(installable, tmp_path):
    first, second = installable("setup"), installable("setup")
    assert first.returncode == 0, first.stderr
    line = "Installing TensorFlow and other packages into .venv, and compiling the tile ops\n"
    assert (first.stderr, second.stderr) == (line, "")
    assert first.stdout.splitlines()[-1] == "Ready: .venv/bin/python has ipu_tf."
    log = (tmp_path / ".venv" / "setup.log").read_text()
    headers, packages, package = (line for line in log.splitlines() if "Downloading" in line)
    assert "--no-deps --requirement .venv/build-requirements.txt" in headers
    assert "--requirement .venv/requirements.txt" in packages
    assert "--editable .[dev,distributed,docs,keras2,probability]" in package
    assert log.index(headers) < log.index("ran: -m ops.build_ops --compile-only")


def test_the_requirements_are_those_of_the_package_and_of_its_extras(installable, tmp_path):
    """With this Python for the lines of the script that write them."""
    python = PYTHON.replace("  *tomllib*)", f'  -c*configparser*) exec {sys.executable} "$@" ;;\n  *tomllib*)')
    add_tool(tmp_path, "python3", python.replace("#!/bin/bash", f"#!{shutil.which('bash')}"))
    assert installable("demo").returncode == 0
    build = (tmp_path / ".venv" / "build-requirements.txt").read_text().split()
    assert build[1].startswith("tensorflow==2.")
    packages = (tmp_path / ".venv" / "requirements.txt").read_text()
    assert packages.startswith("\n".join(build))
    assert "keras>=" in packages
    assert "scikit-learn>=" in packages
    assert "mypy" not in packages


def test_a_failed_installation_shows_its_words(installable):
    result = installable("setup", PIP_EXIT="3")
    assert result.returncode == 1
    assert "Downloading: " in result.stderr
    assert "error: the installation into .venv failed; its words are above" in result.stderr
    assert installable("setup").returncode == 0


def test_the_demo_installs_no_tools_and_tests_then_do(installable, tmp_path):
    def log_of(task):
        (tmp_path / ".venv" / "setup.log").unlink(missing_ok=True)
        assert installable(task).returncode == 0
        log = tmp_path / ".venv" / "setup.log"
        return log.read_text() if log.exists() else None

    assert "--editable .[demo,keras2]\n" in log_of("demo")
    assert log_of("demo") is None
    assert "--editable .[dev,distributed,docs,keras2,probability]\n" in log_of("setup")
    assert log_of("setup") is log_of("demo") is None


def test_all_tests_install_what_only_slow_ones_need(installable, tmp_path):
    log = tmp_path / ".venv" / "setup.log"
    assert installable("test", "tests/x.py").returncode == 0
    assert "extra-requirements" not in log.read_text()
    for _ in range(2):
        result = installable("test", "--all", "tests/x.py")
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1] == "ran: -m pytest tests/x.py"
    line = "install --progress-bar off --requirement .venv/extra-requirements.txt\n"
    assert log.read_text().count(line) == 1


def test_the_newest_releases_are_installed_with_a_keras_2_that_holds_none_back(
    installable, tmp_path
):
    for name in ("git", "grep", "xargs"):
        add_tool(tmp_path, name, "#!/bin/sh\n")
    result = installable("test-next", "tests/x.py")
    packages, keras_2 = (line for line in result.stdout.splitlines() if "Downloading" in line)
    assert "--pre tensorflow keras " in packages
    assert keras_2.endswith("--pre --no-deps tf_keras")


def test_run_runs_a_script_with_the_python_of_the_checkout(installable):
    result = installable("run", "my script.py", "--epochs", "2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "ran: my script.py --epochs 2"


def test_run_says_what_it_lacks(bare):
    result = bare("run")
    assert result.returncode == 1
    assert "error: nothing to run. Name a script, or a module: ./dev run -m" in result.stderr


def test_demo_writes_a_report_and_names_it(installable, tmp_path):
    result = installable("demo", "--epochs", "2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-2:] == [
        "ran: -m ipu_tf run tutorials/cifar10.py --data digits --epochs 20 --report build/demo.html "
        "--epochs 2",
        f"The page: file://{tmp_path}/build/demo.html",
    ]


def test_the_page_of_the_demo_opens_on_a_desktop(installable, tmp_path):
    add_tool(tmp_path, "xdg-open", f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    assert installable("demo", DISPLAY=":0").returncode == 0
    assert (tmp_path / "opened").read_text() == "build/demo.html\n"


def test_ci_runs_the_tests_in_a_browser_on_request(installable, tmp_path):
    add_tool(tmp_path, "nproc", "#!/bin/sh\necho 2\n")
    for name in ("find", "xargs"):
        add_tool(tmp_path, name, "#!/bin/sh\n")
    plain, browser = installable("ci"), installable("ci", "--browser")
    assert plain.returncode == browser.returncode == 0, browser.stderr
    assert "tests/browser" not in plain.stdout
    assert browser.stdout.splitlines()[-1] == "ran: -m pytest tests/browser, required"
    refused = installable("ci", "--fast")
    assert refused.returncode == 1
    assert "./dev ci takes --browser, or nothing. Received: --fast" in refused.stderr


def test_ci_runs_its_task_and_passes_on_the_verdict(tmp_path):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    dev = tmp_path / "dev"
    dev.write_text('#!/bin/sh\necho "task: $*"\nexit 7\n')
    dev.chmod(0o755)
    result = subprocess.run(
        [str(tmp_path / ".ci" / "run")], capture_output=True, text=True, check=False, env=os.environ
    )
    assert result.returncode == 7
    assert result.stdout == "task: ci\n"
