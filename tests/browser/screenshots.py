"""Makes the pictures of the documents: `python -m tests.browser.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser import chromium, networks, site

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

PICTURES: dict[str, tuple[str, ...]] = {
    "cifar10": ("summary", "execution", "plans"),
    "resnet50": ("memory", "liveness", "tiles", "operations"),
    "pipeline": ("pipeline",),
    "host": ("host",),
}
"""The views of reports that are shown, by network."""

DARK = ("resnet50",)
"""The networks that are shown in dark colours."""


def main(folder: Path = FOLDER) -> None:
    """Writes all pictures: of reports first, since the site shows them.

    Raises:
        SystemExit: Chromium, Node.js or a package is missing, or a page has faults.
    """
    if problem := chromium.missing() or site.missing():
        raise SystemExit(problem)
    folder.mkdir(exist_ok=True)
    write_reports(folder)
    with tempfile.TemporaryDirectory() as pages:
        site.write_pictures(site.build(Path(pages)), folder)


def write_reports(folder: Path) -> None:
    """Writes the pictures of reports.

    Raises:
        SystemExit: A page has faults.
    """
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
