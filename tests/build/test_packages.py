"""The packages and files of an installation."""

import configparser
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "ipu_tf"


def test_every_folder_of_modules_is_a_package():
    """`pip install` leaves out folders without `__init__.py`, which an editable install finds."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert len(folders) > 5
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_installed():
    """`pip install` leaves out data files that `setup.cfg` does not name."""
    setup = configparser.ConfigParser()
    setup.read(PACKAGE.parent / "setup.cfg")
    installed = {
        path
        for package, patterns in setup["options.package_data"].items()
        for pattern in patterns.split()
        for path in PACKAGE.parent.joinpath(*package.split(".")).glob(pattern)
    }
    suffixes = (".csv", ".css", ".html", ".js", ".json", ".toml", ".txt")
    data = {path for path in PACKAGE.rglob("*") if path.suffix in suffixes}
    assert len(data) > 5
    assert data - installed == set()
