"""The libraries of Poplar and the test programs, built once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ipu_tf.poplar import installation, user_op_sources, user_ops
from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, find_compiler

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-O1")
BUILT = {"programs", "sanitized"}
"""The fixtures that build libraries."""


# Before pytest leaves out what is marked.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks tests slow that need the libraries: in a fresh clone, building them takes 90 CPU s."""
    for item in items:
        if Path(__file__).parent in item.path.parents and BUILT & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


class Programs:
    """Compiles and runs C++ programs against libraries that flags were built with."""

    def __init__(self, folder, flags=()):
        self.place = installation(folders=(ROOT / "build" / "poplar",), flags=(*WARNINGS, *flags))
        self.flags = (*WARNINGS, *flags)
        self.folder = folder
        self.compiled = {}
        self.environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}

    def program(self, *sources):
        if sources not in self.compiled:
            output = self.folder / f"{sources[0].stem}-{len(self.compiled)}"
            words = [*PROGRAM_FLAGS, *self.flags, *self.place.compile_flags, *map(str, sources)]
            words = [*words, "-o", str(output), *self.place.link_flags]
            find_compiler().run(words, sources[0].name)
            self.compiled[sources] = output
        return self.compiled[sources]

    def run(self, *sources, arguments=(), folder=PROGRAMS):
        return subprocess.run(
            [self.program(*sources), *arguments],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("poplar"))


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("poplar-sanitized"), SANITIZERS)


@pytest.fixture(scope="module")
def installed(programs, tmp_path_factory):
    """Lets custom ops use the libraries of the tests, and a cache of our own."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (user_ops, user_op_sources):
            patch.setattr(module, "installation", lambda: programs.place)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user_ops"))
        yield programs.place
    user_ops._bridge.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def prune():
    """Deletes libraries that no test of this run used, but the two newest."""
    yield
    built = [path for path in (ROOT / "build" / "poplar").glob("*") if path.is_dir()]
    for old in sorted(built, key=lambda path: path.stat().st_mtime)[:-2]:
        shutil.rmtree(old, ignore_errors=True)
