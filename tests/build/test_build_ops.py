"""The build of the tile ops, on two small sources."""

import ctypes
import dataclasses
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from ops import build_ops, toolchain
from ops.toolchain import BuildError, Toolchain, find_compiler


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of sources and the folders to build them in."""
    compiler, compiler_version = find_compiler()
    found = Toolchain(
        compiler=compiler,
        compiler_version=compiler_version,
        tensorflow_version="2.21.0",
        include_dir=str(tmp_path),
        compile_flags=(),
        link_flags=(),
    )
    monkeypatch.setattr(build_ops, "find_toolchain", lambda: found)
    source = tmp_path / "ops"
    (source / "core").mkdir(parents=True)
    (source / "core" / "one.h").write_text("inline int one() { return 1; }\n")
    (source / "core" / "one.cc").write_text(
        '#include "core/one.h"\nextern "C" int value() { return one(); }\n'
    )
    (source / "other.cc").write_text('extern "C" int other() { return 2; }\n')
    return tmp_path


def run_build(project):
    return build_ops.build(project / "ops", project / "build", project / "out")


def value_of(project, name):
    # A library is loaded once a path, so each look takes a copy.
    copy = project / f"{len(list(project.iterdir()))}.so"
    shutil.copyfile(project / "out" / "_ops.so", copy)
    return getattr(ctypes.CDLL(str(copy)), name)()


def test_builds_every_source_into_one_library(project):
    assert run_build(project) == 2
    assert value_of(project, "value") == 1
    assert value_of(project, "other") == 2


def test_writes_what_it_was_built_for(project):
    run_build(project)
    info = runpy.run_path(str(project / "out" / "_build_info.py"))
    assert info["TENSORFLOW_VERSION"] == "2.21.0"
    assert info["COMPILER"] == find_compiler()[1]


def test_second_build_compiles_nothing_and_keeps_the_library(project):
    run_build(project)
    before = (project / "out" / "_ops.so").stat()
    assert run_build(project) == 0
    assert (project / "out" / "_ops.so").stat().st_mtime_ns == before.st_mtime_ns


def test_sources_that_include_tensorflow_are_compiled_as_one(project):
    for folder, name in (
        ("tf", "first"),
        ("tf", "second"),
        ("xla", "third"),
        ("xla", "xla_kernels"),
    ):
        source = project / "ops" / folder / f"{name}.cc"
        source.parent.mkdir(exist_ok=True)
        source.write_text(f'extern "C" int {name}() {{ return 3; }}\n')
    assert run_build(project) == 2 + 2
    assert value_of(project, "second") == value_of(project, "xla_kernels") == 3
    assert run_build(project) == 0
    (project / "ops" / "tf" / "second.cc").write_text("int broken(\n")
    with pytest.raises(BuildError, match=r"(?s)joined\.cc failed: .*tf/second\.cc:.*error:"):
        run_build(project)


def test_objects_may_be_compiled_ahead_of_the_library(project):
    assert build_ops.build(project / "ops", project / "build", None) == 2
    assert not (project / "out").exists()
    assert run_build(project) == 0
    assert value_of(project, "value") == 1


def test_compiling_alone_is_an_option(monkeypatch, capsys):
    folders = []
    monkeypatch.setattr(build_ops, "build", lambda *given: folders.append(given[-1]) or 3)
    assert build_ops.main(["--compile-only"]) == build_ops.main([]) == 0
    assert folders == [None, build_ops.ROOT / "ipu_tf"]
    assert capsys.readouterr().out.splitlines() == [
        "Compiled the tile ops (3 files compiled).",
        "Built the tile ops (3 files compiled).",
    ]


def test_changed_header_recompiles_its_users_only(project):
    run_build(project)
    (project / "ops" / "core" / "one.h").write_text("inline int one() { return 7; }\n")
    assert run_build(project) == 1
    assert value_of(project, "value") == 7


def test_touched_file_is_not_recompiled(project):
    run_build(project)
    (project / "ops" / "other.cc").touch()
    assert run_build(project) == 0


def test_objects_of_earlier_builds_are_removed(project):
    run_build(project)
    (project / "ops" / "other.cc").write_text('extern "C" int other() { return 3; }\n')
    run_build(project)
    assert len(list((project / "build").glob("*.o"))) == 2
    assert len(list((project / "build").glob("*.so"))) == 1


def test_deleted_library_is_put_back(project):
    run_build(project)
    (project / "out" / "_ops.so").unlink()
    assert run_build(project) == 0
    assert value_of(project, "other") == 2


def test_compiler_error_names_the_file_and_keeps_the_old_library(project):
    run_build(project)
    (project / "ops" / "other.cc").write_text("int broken(\n")
    with pytest.raises(BuildError, match=r"(?s)Compiling ops/other\.cc failed: .*error:") as caught:
        run_build(project)
    assert "IPU_TF_WARNINGS_AS_ERRORS" not in str(caught.value)
    assert value_of(project, "other") == 2


def test_a_warning_is_an_error_in_sources_of_ours_alone(project, monkeypatch):
    found = build_ops.find_toolchain()
    (project / "tensorflow.h").write_text("inline int theirs(int unused) { return 1; }\n")
    (project / "ops" / "other.cc").write_text('#include "tensorflow.h"\nint n = theirs(1);\n')
    strict = dataclasses.replace(found, warning_flags=toolchain.WARNING_FLAGS)
    monkeypatch.setattr(build_ops, "find_toolchain", lambda: strict)
    assert run_build(project) == 2
    (project / "ops" / "other.cc").write_text("int ours(int unused) { return 1; }\n")
    message = r"(?s)other\.cc failed.*unused parameter.*set IPU_TF_WARNINGS_AS_ERRORS=0\.$"
    with pytest.raises(BuildError, match=message):
        run_build(project)
    monkeypatch.setattr(build_ops, "find_toolchain", lambda: found)
    assert run_build(project) == 2


def test_a_program_is_built_where_it_is_out_of_date(project):
    source = project / "ops" / "program.cc"
    source.write_text('#include "core/one.h"\nint main() { return one(); }\n')

    def build():
        found = build_ops.find_toolchain()
        return build_ops.build_program([source], project / "ops", project / "build", found)

    program = build()
    assert subprocess.run([str(program)], check=False).returncode == 1
    before = program.stat().st_mtime_ns
    assert build().stat().st_mtime_ns == before
    (project / "ops" / "core" / "one.h").write_text("inline int one() { return 7; }\n")
    assert subprocess.run([str(build())], check=False).returncode == 7
    assert not program.exists()


def test_no_sources_is_an_error(tmp_path):
    with pytest.raises(BuildError, match=r"There are no \.cc files under"):
        build_ops.build(tmp_path, tmp_path / "build", tmp_path / "out")


def test_command_line_prints_the_error(monkeypatch, capsys):
    def refuse(*folders):
        raise BuildError("no compiler here")

    monkeypatch.setattr(build_ops, "build", refuse)
    assert build_ops.main([]) == 1
    assert capsys.readouterr().err == "error: no compiler here\n"


def test_includes_are_followed_and_strangers_left_out(project):
    source = project / "ops" / "core" / "two.cc"
    source.write_text('#include "one.h"\n#include "tensorflow/core/op.h"\n#include <vector>\n')
    files = build_ops.included_files(source, project / "ops")
    assert [Path(file).name for file in files] == ["two.cc", "one.h"]
