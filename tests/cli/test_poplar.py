"""`ipu-tf poplar` and `ipu-tf poplar-config`: what they print and refuse, without a compiler."""

import json

import pytest

from ipu_tf import cli
from ipu_tf.poplar import Installation, PoplarBuildError, programs
from ipu_tf.poplar.libraries import LIBRARIES, installation


@pytest.fixture
def place(monkeypatch, tmp_path):
    place = Installation(tmp_path / "a prefix")
    monkeypatch.setattr("ipu_tf.poplar.installation", lambda: place)
    monkeypatch.setattr(programs, "installation", lambda: place)
    return place


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A compiler that writes a program which prints its words, and its own words."""
    path = tmp_path / "compiler"
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "compiler 1" && exit\n'
        f'echo "$@" > {tmp_path}/words\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'printf \'#!/bin/sh\\necho program "$@"\\nexit 7\\n\' > "$2"; chmod +x "$2"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the C++ sources of a program"),
        (["--", "1"], "name the C++ sources of a program"),
        (["missing.cpp"], "there is no file 'missing.cpp'"),
    ],
)
def test_bad_input_is_an_error(words, message, capsys):
    assert cli.main(["poplar", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_program_gets_its_words_and_gives_its_exit_code(place, compiler, tmp_path, capfd):
    source = tmp_path / "main.cpp"
    source.touch()
    assert cli.main(["poplar", "--flags=-I.. -DX='a b'", str(source), "--", "1", "--two"]) == 7
    assert capfd.readouterr().out == "program 1 --two\n"
    assert cli.main(["poplar", "--json", str(source)]) == 7
    assert json.loads(capfd.readouterr().out.split("\n")[-2]) == {"exit_code": 7}
    assert cli.main(["poplar", "--flags=-I.. -DX='a b'", str(source)]) == 7
    words = (tmp_path / "words").read_text()
    assert f"{source} -I.. -DX=a b -o" in words
    folders = f"-L {place.prefix}/lib -Wl,-rpath,{place.prefix}/lib"
    assert f"{folders} -lpoprand -lpopops -lpoputil -lpoplar" in words


def test_a_program_gets_the_folder_of_its_report(place, compiler, tmp_path, monkeypatch):
    found = {}
    ran = programs.subprocess.run

    def run(command, **options):
        found.update(options.get("env", {}))
        return ran(command, **options)

    source = tmp_path / "main.cpp"
    source.touch()
    monkeypatch.setattr(programs.subprocess, "run", run)
    assert cli.main(["poplar", "--report", "a folder", str(source)]) == 7
    assert found[programs.REPORT] == "a folder"


def test_config_prints_what_makefiles_need(place, capsys):
    def printed(*words):
        assert cli.main(["poplar-config", *words]) == 0
        return capsys.readouterr().out

    assert printed() == f"{place.prefix}\n"
    assert f"export CPATH='{place.prefix}/include'${{CPATH:+:$CPATH}}\n" in printed("--env")
    assert printed("--cflags") == f"-I '{place.prefix}/include'\n"
    assert "-lpoplar" in printed("--libs")
    assert json.loads(printed("--json"))["env"]["PATH"] == f"{place.prefix}/bin"


def test_a_missing_compiler_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["poplar-config"]) == 2
    assert "'no-such-compiler' is not on PATH. Install g++" in capsys.readouterr().err
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(PoplarBuildError, match="does not run"):
        installation()


def test_a_compiler_that_refuses_is_quoted(monkeypatch, tmp_path, compiler):
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "compiler 2" && exit\necho no >&2; exit 1\n'
    )
    with pytest.raises(PoplarBuildError, match=r"Poplar's source \S+ does not compile:\nno"):
        installation(folders=(tmp_path / "built",))
    assert [path.name for path in (tmp_path / "built").iterdir()] == ["lock"]


def test_no_writable_folder_is_an_error(tmp_path, compiler):
    (tmp_path / "file").touch()
    with pytest.raises(PoplarBuildError, match="Set XDG_CACHE_HOME to a folder of yours"):
        installation(folders=(tmp_path / "file" / "below",))


def test_a_build_shows_how_far_it_is(tmp_path, compiler, monkeypatch, capsys):
    folder = tmp_path / "cpp"
    built = (*LIBRARIES, "user_op", "popc")
    for name in ("include", "device", "codelets", *(f"src/{one}" for one in built)):
        (folder / name).mkdir(parents=True)
    for one in built:
        (folder / "src" / one / "one.cc").touch()
    monkeypatch.setattr("ipu_tf.poplar.libraries.sources", lambda: folder)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    place = installation(folders=(tmp_path / "built",))
    error = capsys.readouterr().err
    assert f"\rBuilding Poplar's libraries: {len(built)} of {len(built)} parts\n" in error
    assert f"Built Poplar's libraries in {place.prefix} (" in error
    assert {path.name for path in place.prefix.iterdir()} >= {"include", "lib", "bin", "helper"}
