import pytest

from ipu_tf.calibration import RecordError, load_records
from ipu_tf.calibration.measurement_units import UnknownUnit, parse_unit

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
        ({"id": "a"}, r"must hold a list of records, .*\. Received: an object of 'id'"),
        ("3", r"must hold a list of records\. Received: int"),
        (["a"], r"entry 0: a record is an object\. Received: 'a'"),
        ([without("kind")], r"entry 0 \(a\): the field 'kind' is missing"),
        ([without("measured")], r"the field 'measured' is missing"),
        ([{**GOOD, "measured": "fast"}], r"'measured' must be a number\. Received: 'fast'"),
        ([{**GOOD, "measured": True}], r"'measured' must be a number\. Received: True"),
        ([{**GOOD, "measured": 0}], r"'measured' must be positive, .*\. Received: 0"),
        ([{**GOOD, "measured": 10**400}], r"'measured' must be positive, and at most 9,007"),
        ([{**GOOD, "chip": 2}], r"'chip' must be a text\. Received: 2"),
        ([{**GOOD, "params": []}], r"'params' must be an object\. Received: \[\]"),
        ([{**GOOD, "n_ipus": 0}], r"'n_ipus' must be positive\. Received: 0"),
        ([{**GOOD, "unit": " "}], r"\(a\): 'unit' must be a unit, such as 'us'"),
        ([GOOD, GOOD], r"has two records of the id 'a'"),
        (
            {"records": []} | GOOD,
            r"an object of 'records' and 'corrections'. Received: an object of",
        ),
        ({}, r"an object of 'records' and 'corrections'. Received: an object of nothing"),
        ({"records": {}}, r"'records' must be a list. Received: dict"),
        ({"records": [], "networks": []}, r"'networks' must be an object. Received: list"),
        ({"records": [], "corrections": {}}, r"'corrections' must be a list. Received: dict"),
        ("[" * 100_000, r"is not JSON: maximum recursion depth"),
        ("[" + "9" * 5000 + "]", r"is not JSON: Exceeds the limit"),
    ],
)
def test_files_that_cannot_be_used(write, entries, message):
    with pytest.raises(RecordError, match=message):
        load_records(write(entries))


@pytest.mark.parametrize(
    "size",
    [
        *('"1e999"', '" 1e308 samples"', '"-1e999"', '"9007199254740994"'),
        *("1e308", "1e400", "Infinity", "NaN", "9007199254740994"),
    ],
)
def test_sizes_that_no_measurement_has(write, size):
    entry = f'"id":"a","kind":"x","chip":"gc2","measured":1,"unit":"us","params":{{"m":{size}}}'
    message = r"entry 0 \(a\): the parameter 'm' is not the size of a measurement"
    with pytest.raises(RecordError, match=message):
        load_records(write(f"[{{{entry}}}]"))


def test_words_may_look_like_large_numbers(write):
    params = {"commit": "1e999ab", "proportion": "0.6 by default", "clock_hz": 1.85e9}
    (record,) = load_records(write([{**GOOD, "params": params}]))
    assert record.params == params


def test_what_is_null_is_not_there(write):
    (record,) = load_records(write([{**GOOD, "dtype": None, "params": None, "n_ipus": None}]))
    assert (record.dtype, record.params, record.n_ipus) == ("-", {}, 1)


def test_a_figure_is_finite(write):
    with pytest.raises(RecordError, match=r"'measured' must be positive, .*\. Received: nan"):
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
