"""The page of performance figures is made from the result files."""

import copy

import pytest

from benchmarks import document
from benchmarks.errors import BenchmarkError
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
THREADS = FACTS | {
    "benchmark": "ops_threads",
    "scaling": {"tile": {"2": 1.75}, "stock": {"2": 1.5}},
    "results": [
        {
            "layer": "cifar10/dense 512->10",
            "pass": pass_,
            "scaling": {"tile": {"2": {"median": 1.875}}, "stock": {"2": {"median": 1.625}}},
        }
        for pass_ in document.PASSES
    ],
}
KINDS = FACTS | {
    "benchmark": "kinds",
    "geometric_mean": 1.375,
    "results": [
        {
            "name": "lstm",
            "what": "LSTM 128 over 80 steps",
            "wanted": 1.5,
            "products": {"share_of_stock": 0.625, "bound": 1.6},
            "samples_per_second": {"stock": {"median": 100.0}, "ipu_tf": {"median": 150.0}},
            "ratio": {"median": 1.5, "min": 1.25, "max": 1.75},
            "first_step_seconds": {"stock": 2.0, "ipu_tf": 2.25, "within_bounds": True},
            "peak_bytes": {"stock": 1 << 30, "ipu_tf": 1 << 29, "within_bounds": True},
        }
    ],
}
BIG = KINDS | {
    "benchmark": "kinds_big",
    "results": [KINDS["results"][0] | {"name": "resnet50", "what": "ResNet-50"}],
}
AVX2 = KINDS | {"benchmark": "kinds_avx2", "geometric_mean": 1.125}
PARTS = FACTS | {
    "benchmark": "parts",
    "results": [
        {
            "name": "mlp: stages / accumulation",
            "wanted_at_most": 1.1,
            "milliseconds_of_an_update": {
                "accumulation": {"median": 2.0},
                "stages": {"median": 2.5},
            },
            "ratio": {"median": 1.25, "min": 1.0, "max": 1.5},
        }
    ],
}
KERAS = FACTS | {
    "benchmark": "keras",
    "results": [
        {
            "name": "mlp",
            "what": "a dense network",
            "wanted": 1.5,
            "samples_per_second": {"stock": {"median": 10.0}, "ipu_tf": {"median": 20.0}},
            "ratio": {"median": 2.125, "of_fastest_rounds": 1.875},
        },
        {
            "name": "memory",
            "what": "peak",
            "wanted_at_most": 1.3,
            "peak_bytes": {"1 replicas": 1 << 20, "4 replicas": 3 << 20},
            "ratio": 3.0,
        },
        {
            "name": "first_step",
            "networks": {
                "mlp": {
                    "seconds": {"stock": {"median": 0.5}, "ipu_tf": {"median": 0.625}},
                    "ratio": 1.25,
                }
            },
        },
    ],
}
COMPILE = FACTS | {
    "benchmark": "compile",
    "against_xla_cpu": {
        "resnet50": {
            "seconds": {"ours": {"median": 3.0}, "xla": {"median": 6.0}},
            "ratio": {"median": 2.0},
        }
    },
    "estimate_of_1.8_billion_weights": {"seconds": {"median": 1.5}, "peak_gib": {"max": 1.25}},
    "run_with_cached_program_seconds": {"median": 0.00025},
    "resnet50_layers": {
        "layers": 54,
        "seconds": {"median": 0.125},
        "scalesim_layers": 2,
        "scalesim_seconds": 12.5,
        "ratio": {"median": 100.0},
    },
}
LOOPS = FACTS | {
    "benchmark": "loops",
    "milliseconds": {"loop_in_function": {"median": 50.0}, "ipu_tf": {"median": 12.5}},
    "ratio": {"loop_in_function": {"median": 4.0, "wanted": 1.0}},
}
MCMC = FACTS | {
    "benchmark": "mcmc",
    "wanted": 1.0,
    "absent": {"numpyro": "ImportError: not here"},
    "chains": {
        "8": {
            "microseconds_a_leapfrog_step": {
                "xla": {"median": 60.0},
                "ipu_tf": {"median": 40.0},
                "blackjax": {"median": 50.0},
            },
            "ratio": {"median": 1.5},
            "first_call_to_that_of_xla": 0.75,
        }
    },
}
RESULTS = {
    "loops": LOOPS,
    "mcmc": MCMC,
    "ops": OPS,
    "ops_threads": THREADS,
    "fit": FIT,
    "keras": KERAS,
    "kinds": KINDS,
    "kinds_big": BIG,
    "kinds_avx2": AVX2,
    "parts": PARTS,
    "compile": COMPILE,
}
TABLES = (
    "host",
    "fit",
    "ops",
    "threads",
    "step",
    "keras",
    "kinds",
    "big",
    "avx2",
    "parts",
    "first step",
    "compile",
    "loops",
    "mcmc",
)
PAGE = "".join(f"text\n<!-- {name} -->\nold\n<!-- end -->\n" for name in TABLES)


def test_networks_layers_are_measured():
    assert set(document.NETWORK) <= {layer.name for layer in LAYERS}


def test_page_shows_the_figures():
    page = document.render(PAGE, RESULTS)
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


def test_loop_compiler_and_first_step_have_their_figures():
    page = document.render(PAGE, RESULTS)
    assert "| a dense network | 10 | 20 | **2.125** | 1.875 | 1.5 |" in page
    assert "| mlp | 0.5 s | 0.625 s | 1.25 |" in page
    assert "| 1 MiB | 3 MiB | 3 | 1.3 |" in page
    assert "| training step of resnet50, compiled | 3 s | 6 s (XLA:CPU) | 2 |" in page
    assert "| 0.125 s | 12.5 s (SCALE-Sim, 2 of the layers) | at least 100 |" in page
    assert "| 0.25 ms | | |" in page


def test_threads_and_kinds_of_networks_have_their_figures():
    page = document.render(PAGE, RESULTS)
    assert "| cifar10/dense 512->10 | 1.88 (1.62) | 1.88 (1.62) | 1.88 (1.62) |" in page
    assert "| **geometric mean of all** | **1.75 (1.50)** | | |" in page
    expected = "**1.5** | 1.25 | 1.75 | 1.5 | 62% | 1.60 | 2.25 s (2 s) | 512 MiB (1024 MiB) |"
    assert f"| LSTM 128 over 80 steps | 100 | 150 | {expected}" in page
    assert page.count("| **geometric mean** | | | **1.375** | | | 1.3 |") == 1
    assert page.count("| **geometric mean** | | | **1.125** | | | | | | | |") == 1
    assert f"| ResNet-50 | 100 | 150 | {expected}" in page
    assert "| mlp | accumulation, 2 ms | stages, 2.5 ms | 1.25 | 1 | 1.5 | 1.1 |" in page


def test_loops_and_samplers_have_their_figures():
    page = document.render(PAGE, RESULTS)
    assert "| stock, the loop in a function | 50 ms | **4** | 1 |" in page
    assert "| ipu_tf | 12.5 ms | | |" in page
    assert "| chains | xla | ipu_tf | blackjax | ratio to stock | wanted |" in page
    assert "| 8 | 60 us | 40 us | 50 us | **1.5** | 1 | 0.75 |" in page
    assert "`numpyro` did not run: ImportError: not here." in page


def test_plans_alone_say_that_nothing_was_compared():
    layers = {"layers": 54, "seconds": {"median": 0.125}, "scalesim": "not measured"}
    table = document.compile_table(COMPILE | {"resnet50_layers": layers})
    assert "| 0.125 s | not measured | |" in table


def test_rendering_twice_changes_nothing():
    page = document.render(PAGE, RESULTS)
    assert document.render(page, copy.deepcopy(RESULTS)) == page


def test_missing_marker_is_named():
    with pytest.raises(BenchmarkError, match="no '<!-- host -->'"):
        document.render("text only", RESULTS)


def test_missing_result_says_how_to_measure(monkeypatch, tmp_path):
    monkeypatch.setattr(document, "RESULTS", tmp_path)
    with pytest.raises(BenchmarkError, match="python -m benchmarks ops --output"):
        document.load("ops")


def test_committed_page_is_up_to_date():
    page = document.PAGE.read_text()
    assert (
        document.render(page, {name: document.load(name) for name in document.BENCHMARKS}) == page
    )
