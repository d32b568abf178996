"""The includes of ops/core run one way: no part, header and source, includes itself by others."""

import graphlib
import re

import pytest

from ops.build_ops import ROOT

CORE = ROOT / "ops" / "core"


def includes(files):
    """The parts that each part includes."""
    found = {}
    for file in files:
        names = re.findall(r'(?m)^#include "(?:[\w./]*/)?(\w+)\.(?:h|inc)"', file.read_text())
        found.setdefault(file.stem, set()).update(set(names) - {file.stem})
    return found


def test_no_part_of_the_core_includes_itself_by_others():
    parts = includes(file for file in CORE.rglob("*") if file.suffix in (".cc", ".h", ".inc"))
    assert "gemm" in parts["matmul"]
    list(graphlib.TopologicalSorter(parts).static_order())


def test_a_circle_is_found(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "a.cc").write_text('#include "a.h"\n')
    (tmp_path / "b.cc").write_text('#include "b.h"\n#include "../parts/a.h"\n')
    parts = includes(sorted(tmp_path.iterdir()))
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(parts).prepare()
