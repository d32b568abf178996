"""Pages of reports, taken apart without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

SCRIPT_END = "</script><script>alert('Ω')</script>"
"""A name that tries to leave the data of a page."""


@dataclass
class Element:
    """An element of a page with its attributes and the text directly inside."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, dict(attrs)))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1].text += data


def elements(page: str, tag: str = "") -> list[Element]:
    """Returns the elements of a page, of one tag or all, in order."""
    parser = _Elements()
    parser.feed(page)
    return [element for element in parser.found if not tag or element.tag == tag]


def data(page: str) -> dict[str, Any]:
    """Returns the data of a page."""
    (found,) = [
        element for element in elements(page, "script") if element.attributes.get("id") == "data"
    ]
    return json.loads(gzip.decompress(base64.b64decode(found.text)))


def policy(page: str) -> str:
    """Returns the content security policy of a page."""
    (found,) = [
        element.attributes["content"]
        for element in elements(page, "meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    return found or ""


def source(text: str) -> str:
    """Returns the source expression of an inline script or style in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
