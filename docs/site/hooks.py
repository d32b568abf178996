"""What the build of the site does beside its plugins."""

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Lets search list pages for users before those for developers."""
    if not page.file.src_uri.startswith(("docs/", "tutorials/", "README.md")):
        page.meta.setdefault("search", {"boost": 0.3})
