"""CHANGELOG.md: a section for each version, the latest first."""

import re
from pathlib import Path

import ipu_tf

TEXT = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"(?m)^## (.*)$", TEXT)


def numbers(version):
    return tuple(map(int, version.partition(".dev")[0].split(".")))


def test_the_current_version_comes_first_and_earlier_ones_follow_in_order():
    current, *released = SECTIONS
    assert current == ("Unreleased" if ".dev" in ipu_tf.__version__ else ipu_tf.__version__)
    versions = [numbers(ipu_tf.__version__), *map(numbers, released)]
    assert len(versions) > 1
    assert versions == sorted(set(versions), reverse=True)


def test_every_released_version_has_its_date():
    for version in filter(re.compile(r"\d").match, SECTIONS):
        assert re.search(rf"(?m)^## {re.escape(version)}\n\n\d{{4}}-\d\d-\d\d\.", TEXT), version


def test_unreleased_changes_are_grouped_by_task_and_begin_with_their_subject():
    unreleased = TEXT[TEXT.index("## Unreleased") : TEXT.index("\n## 0.")]
    assert "### Added" not in unreleased
    assert "\n* Under " not in unreleased
    groups = re.split(r"(?m)^### .*$", unreleased)
    assert all("\n* " in group for group in groups[1:])
    assert "\n* " not in groups[0]
