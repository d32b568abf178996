"""Makes the pictures of docs/report.md: `python -m tests.browser.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser import chromium, networks

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

PICTURES: dict[str, tuple[str, ...]] = {
    "cifar10": ("summary", "execution", "plans"),
    "resnet50": ("memory", "liveness", "tiles", "operations"),
    "pipeline": ("pipeline",),
    "host": ("host",),
}
"""The views that are shown, by network."""

DARK = ("resnet50",)
"""The networks that are shown in dark colours."""


def main(folder: Path = FOLDER) -> None:
    """Writes all pictures.

    Raises:
        SystemExit: Chromium, Node.js or a package is missing.
    """
    if problem := chromium.missing():
        raise SystemExit(problem)
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as pages:
        for name, views in PICTURES.items():
            page = Path(pages) / f"{name}.html"
            networks.REPORTS[name]().to_html(page)
            theme = "dark" if name in DARK else "light"
            options = {"folder": str(folder), "name": name, "views": views}
            answer = chromium.run("screenshots", page, theme=theme, width=1280, **options)
            if answer["faults"]:
                raise SystemExit("\n".join(answer["faults"]))


if __name__ == "__main__":
    main()
