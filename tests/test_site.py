"""docs/mkdocs.yml: the navigation has every page of the checkout; packages enter their own."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFIG = (ROOT / "docs" / "mkdocs.yml").read_text()
NAVIGATION = CONFIG.partition("\nnav:\n")[2]
ENTRIES = re.findall(r"(?m)^ +- (?:.*: )?(\S+\.md)$", NAVIGATION)


def pages():
    yield from ROOT.glob("*.md")
    for folder in ("benchmarks", "docs", "ops", "tests", "tutorials"):
        for page in (ROOT / folder).rglob("*.md"):
            if "node_modules" not in page.parts:
                yield page


def test_every_page_is_in_the_navigation_of_the_site_once():
    assert sorted(ENTRIES) == sorted(str(page.relative_to(ROOT)) for page in pages())


def test_pages_of_what_is_installed_or_built_are_left_out():
    gitignore = pytest.importorskip("pathspec.gitignore")
    excluded = re.findall(
        r"(?m)^  (.+)$", CONFIG.partition("exclude_docs: |\n")[2].partition("\nhooks")[0]
    )
    patterns = gitignore.GitIgnoreSpec.from_lines(excluded)
    left_out = (".venv/lib/a/docs/index.md", "build/a.md", "tests/browser/node_modules/a/README.md")
    assert all(patterns.match_file(page) for page in left_out)
    assert not any(patterns.match_file(page) for page in (*ENTRIES, "ipu_tf/keras/README.md"))
