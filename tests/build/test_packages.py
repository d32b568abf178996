"""The packages and files of an installation."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "ipu_tf"


def test_every_folder_of_modules_is_a_package():
    """`pip install` leaves out folders without `__init__.py`, which an editable install finds."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert len(folders) > 5
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
