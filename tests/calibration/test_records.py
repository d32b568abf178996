import pytest

from ipu_tf.calibration import RecordError, load_records
from ipu_tf.calibration.units import UnknownUnit, parse_unit

GOOD = {"id": "a", "kind": "host", "chip": "gc2", "params": {}, "measured": 1.5, "unit": "us"}


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


def test_a_record_keeps_its_fields(write):
    (record,) = load_records(write([{**GOOD, "what": "a-b_c", "confidence": "high", "cycles": 7}]))
    assert (record.id, record.measured, record.n_ipus, record.dtype) == ("a", 1.5, 1, "-")
    assert record.text == "a a b c"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("{nonsense", r"records\.json is not JSON: Expecting property.*Write a list of records"),
        ("[1, 2", r"is not JSON"),
        ({"id": "a"}, r"must hold a list of records\. Received: dict"),
        (["a"], r"entry 0: a record is an object\. Received: 'a'"),
        ([without("kind")], r"entry 0 \(a\): the field 'kind' is missing"),
        ([without("measured")], r"the field 'measured' is missing"),
        ([{**GOOD, "measured": "fast"}], r"'measured' must be a number\. Received: 'fast'"),
        ([{**GOOD, "measured": True}], r"'measured' must be a number\. Received: True"),
        ([{**GOOD, "measured": 0}], r"'measured' must be positive\. Received: 0"),
        ([{**GOOD, "chip": 2}], r"'chip' must be a text\. Received: 2"),
        ([{**GOOD, "params": []}], r"'params' must be an object\. Received: \[\]"),
        ([{**GOOD, "n_ipus": 0}], r"'n_ipus' must be positive\. Received: 0"),
        ([{**GOOD, "unit": " "}], r"\(a\): 'unit' must be a unit, such as 'us'"),
        ([GOOD, GOOD], r"has two records of the id 'a'"),
    ],
)
def test_files_that_cannot_be_used(write, entries, message):
    with pytest.raises(RecordError, match=message):
        load_records(write(entries))


def test_what_is_null_is_not_there(write):
    (record,) = load_records(write([{**GOOD, "dtype": None, "params": None, "n_ipus": None}]))
    assert (record.dtype, record.params, record.n_ipus) == ("-", {}, 1)


def test_a_figure_is_finite(write):
    with pytest.raises(RecordError, match=r"'measured' must be positive\. Received: nan"):
        load_records(write('[{"id":"a","kind":"x","chip":"gc2","measured":NaN,"unit":"us"}]'))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RecordError, match=r"Cannot read the records of .*no\.json: No such file"):
        load_records(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("text", "dimension", "size"),
    [
        ("us", "seconds", 1e-6),
        ("ns", "seconds", 1e-9),
        ("cycles", "cycles", 1),
        ("TFLOPS (whole IPU)", "flops_per_second", 1e12),
        ("GFLOP/s", "flops_per_second", 1e9),
        ("GB/s aggregate received", "bytes_per_second", 1e9),
        ("GiB/s", "bytes_per_second", 2**30),
        ("TB/s", "bytes_per_second", 1e12),
        ("KiB", "bytes", 1024),
        ("n", "count", 1),
    ],
)
def test_units(text, dimension, size):
    unit = parse_unit(text)
    assert (unit.dimension, unit.size) == (dimension, size)


@pytest.mark.parametrize("text", ["", "W", "(us)"])
def test_units_that_do_not_exist(text):
    with pytest.raises(UnknownUnit, match="unknown unit.*cycles, ns, us"):
        parse_unit(text)
