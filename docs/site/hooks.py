"""What the build of the site does beside its plugins."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def on_config(config: Any) -> None:
    """Enters the README.md of every package in the section "Inside", under its own heading."""
    (inside,) = (section["Inside"] for section in config.nav if "Inside" in section)
    pages = sorted((ROOT / "ipu_tf").rglob("README.md"))
    inside.extend(str(page.relative_to(ROOT)) for page in pages)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Lets search list pages for users before those for developers."""
    if not page.file.src_uri.startswith(("docs/", "tutorials/", "README.md")):
        page.meta.setdefault("search", {"boost": 0.3})
