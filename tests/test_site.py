"""docs/mkdocs.yml: the navigation has every page of the checkout; packages enter their own."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAVIGATION = (ROOT / "docs" / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
ENTRIES = re.findall(r"(?m)^ +- (?:.*: )?(\S+\.md)$", NAVIGATION)


def pages():
    yield from ROOT.glob("*.md")
    for folder in ("benchmarks", "docs", "ops", "tests", "tutorials"):
        for page in (ROOT / folder).rglob("*.md"):
            if "node_modules" not in page.parts:
                yield page


def test_every_page_is_in_the_navigation_of_the_site_once():
    assert sorted(ENTRIES) == sorted(str(page.relative_to(ROOT)) for page in pages())
