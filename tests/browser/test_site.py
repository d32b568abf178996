"""The documents as a site: styled, searched and read from files in Chromium, without a network."""

import os

import pytest

from tests.browser import site

pytestmark = pytest.mark.slow

TASKS = ["I have a script", "I want to size a model", "I study the machine", "I sample"]

FAULTS_OF_THE_THEME = {"aria-dialog-name", "landmark-unique"}


@pytest.fixture(scope="module")
def use(browser, tmp_path_factory):
    """Runs a task of site.mjs with a page of the site, and returns what it found."""
    if problem := site.missing():
        if os.environ.get("IPU_TF_BROWSER_TESTS") == "required":
            pytest.fail(problem)
        pytest.skip(problem)
    folder = site.build(tmp_path_factory.mktemp("site"))

    def run(task, page, **options):
        answer = site.use(task, folder, page, **options)
        assert answer["faults"] == []
        return answer["found"]

    return run


def test_the_first_page_has_the_style_of_the_theme_the_tasks_and_the_pictures(use):
    found = use("style", "index.html")
    assert found["header"] == "sticky"
    assert found["colour"] != "rgba(0, 0, 0, 0)"
    assert "sans-serif" in found["font"]
    assert [tab for tab in found["tabs"] if tab in TASKS] == TASKS
    assert len(found["pictures"]) == 4
    assert all(width > 0 for width in found["pictures"])


@pytest.mark.parametrize("page", ["index.html", "ops/index.html"])
def test_search_finds_gradient_accumulation(use, page):
    found = use("search", page, query="gradient accumulation", section="Gradient accumulation")
    assert found["results"][0] == "Keras models"
    assert found["reached"].endswith(
        "/docs/keras.html?h=gradient+accumulation#gradient-accumulation"
    )
    assert "Gradient accumulation" in found["marked"]


def test_wide_tables_scroll_and_the_page_does_not(use):
    found = use("style", "docs/compatibility.html", width=420)
    wide = [table for table in found["tables"] if table["own"] > table["box"]]
    assert wide
    assert {table["overflow"] for table in wide} == {"auto"}
    assert found["excess"] <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index.html", "docs/report.html"])
def test_pages_have_no_fault_that_axe_finds(use, page, theme):
    found = use("audit", page, theme=theme)
    assert [fault for fault in found if fault["id"] not in FAULTS_OF_THE_THEME] == []
