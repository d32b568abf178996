"""An HTML page in one file: data, styles and scripts inside, nothing from outside.

The data are JSON, compressed and in base64, so no text of a report can be read as markup. The
browser runs the scripts whose hashes the content security policy names, and no others.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources

_WEB = resources.files(__name__.rpartition(".")[0])

_SHARED = (
    "web/dom.js",
    "web/format.js",
    "web/theme.js",
    "web/chart.js",
    "web/table.js",
    "web/tabs.js",
)
"""Scripts of every page, in order: later ones use the names of earlier ones."""


def page(
    *, title: str, data: Mapping[str, object], scripts: tuple[str, ...], without_scripts: str = ""
) -> str:
    """Returns a page as the text of an HTML file.

    Args:
        title: Its title.
        data: The data that the scripts show, as plain data without NaN and infinities.
        scripts: Names of the scripts besides the shared ones; the last one starts.
        without_scripts: The text that mail programs and browsers without scripts show.
    """
    charts, program = _asset("vendor/echarts.min.js"), _script(scripts)
    style = _asset("web/style.css")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {_hash(style)}; script-src {_hash(charts)} {_hash(program)}"
    )
    values = {
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": style,
        "WITHOUT_SCRIPTS": html.escape(without_scripts),
        "DATA": _compressed({**data, "licences": _asset("vendor/LICENSES.txt")}),
        "CHARTS": charts,
        "SCRIPT": program,
    }
    parts = _asset("web/page.html").split("%%")
    # Every second part is the name of a value; values are not searched for names again.
    return "".join(values[part] if index % 2 else part for index, part in enumerate(parts))


@functools.cache
def _asset(name: str) -> str:
    """Returns the text of a file of this package."""
    return _WEB.joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _script(names: tuple[str, ...]) -> str:
    """Returns scripts as one that shares its names with no other."""
    parts = "\n".join(_asset(name) for name in (*_SHARED, *names))
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


@functools.cache
def _hash(text: str) -> str:
    """Returns the source expression of an inline script or style."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _compressed(data: Mapping[str, object]) -> str:
    plain = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(plain, compresslevel=6, mtime=0)).decode()
