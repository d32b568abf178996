"""The page of performance figures is made from the result files."""

import copy

import pytest

from benchmarks import document
from benchmarks.shapes import LAYERS

FACTS = {
    "versions": {"tensorflow": "2.21.0"},
    "processor": "a processor",
    "cores": 2,
    "cores_used_by_others": 0.1,
    "tile_op_instructions": "avx2",
    "rounds": 3,
}
FIT = FACTS | {
    "benchmark": "fit",
    "batch": [64, 32, 32, 3],
    "settings": {"stock": {"jit_compile": False}, "ipu_tf": {"jit_compile": True}},
    "images_per_second": {
        "stock": {"median": 1000.0, "min": 900.0, "max": 1100.0},
        "ipu_tf": {"median": 1950.0, "min": 1900.0, "max": 2000.0},
    },
    "ratio": {"median": 2.0, "min": 1.75, "max": 2.25, "of_fastest_rounds": 1.9},
}
OPS = FACTS | {
    "benchmark": "ops",
    "ratio": {
        "geometric_mean": 1.5,
        "geometric_mean_of_fastest_rounds": 1.75,
        "geometric_mean_by_pass": dict.fromkeys(document.PASSES, 1.25),
    },
    "results": [
        {
            "layer": name,
            "pass": pass_,
            "fastest_microseconds": {"tile": 100.0},
            "ratio": {"median": 1.234},
        }
        for name in document.NETWORK
        for pass_ in document.PASSES
    ],
}
PAGE = "".join(
    f"text\n<!-- {name} -->\nold\n<!-- end -->\n" for name in ("host", "fit", "ops", "step")
)


def test_networks_layers_are_measured():
    assert set(document.NETWORK) <= {layer.name for layer in LAYERS}


def test_page_shows_the_figures():
    page = document.render(PAGE, OPS, FIT)
    assert "| ipu_tf | jit_compile=True | 1950 | 1900 | 2000 |" in page
    assert "| **ratio** | | 2 | 1.75 | 2.25 |" in page
    assert "| cifar10/dense 512->10 | 1.23 | 1.23 | 1.23 |" in page
    assert "| **geometric mean of all** | **1.50** | | |" in page
    assert "| ratio of the fastest rounds | | 1.9 | | |" in page
    assert "| geometric mean of all, fastest rounds | 1.75 | | |" in page
    assert "old" not in page


def test_step_is_split_into_layers_and_the_rest():
    page = document.step_table(OPS, FIT)
    # 64 images at 2,000 a second are 32 ms; 17 passes of 0.1 ms are tile ops.
    assert "| **step** | 32000 | 100% |" in page
    assert "| the rest | 30300 | 95% |" in page


def test_rendering_twice_changes_nothing():
    page = document.render(PAGE, OPS, FIT)
    assert document.render(page, copy.deepcopy(OPS), FIT) == page


def test_missing_marker_is_named():
    with pytest.raises(ValueError, match="no '<!-- host -->'"):
        document.render("text only", OPS, FIT)


def test_missing_result_says_how_to_measure(monkeypatch, tmp_path):
    monkeypatch.setattr(document, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="python -m benchmarks ops --output"):
        document.load("ops")


def test_committed_page_is_up_to_date():
    page = document.PAGE.read_text()
    assert document.render(page, document.load("ops"), document.load("fit")) == page
