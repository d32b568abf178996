"""`ipu-tf validate`: predictions of a file of records."""

import json

from ipu_tf import cli


def test_validate_names_what_is_wrong_with_a_file(tmp_path, capsys):
    path = tmp_path / "records.json"
    path.write_text("{")
    assert cli.main(["validate", str(path)]) == 2
    assert "records.json" in capsys.readouterr().err


def test_validate_prints_predictions(tmp_path, capsys):
    record = {
        "id": "one",
        "kind": "something_new",
        "chip": "gc200",
        "params": {},
        "dtype": "f32",
        "measured": 1.0,
        "unit": "cycles",
        "source": "a test",
    }
    path = tmp_path / "records.json"
    path.write_text(json.dumps([record]))
    assert cli.main(["validate", str(path), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["id"], entry["predicted"], entry["measured"]) == ("one", None, 1.0)
