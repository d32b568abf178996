"""Names of public classes: no two that a reader takes for each other."""

import csv
import functools
import itertools
import re
from collections import Counter, defaultdict

import pytest

from tests import sources
from tests.sources import PACKAGE

VENDOR_API = PACKAGE / "compat/vendor_api.csv"

EARLIER_RELEASES = ("compat/tf_keras/earlier_models.py",)
"""Modules whose classes have to have the names that the vendor's models had, as those of now."""

TWINS = "keras/tf_keras/"
"""The room whose layers, optimizers and models have the names of those for Keras 3."""

ENDINGS = ("ing", "er", "ed", "es", "e", "s")
SHORTEST_STEM = 3


def public_classes(package=PACKAGE):
    """Yields name and module of the public classes of a package."""
    for path in sources.paths(package):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            yield name, path.relative_to(package).as_posix()


def vendor_classes_of_one_name():
    """The names that the vendor's interface gives to a class in each of several modules."""
    with VENDOR_API.open() as rows:
        names = (row[0].rpartition(".")[2] for row in csv.reader(rows) if row[1:2] == ["class"])
        return {name for name, count in Counter(names).items() if count > 1}


def differ_by_a_letter(first, second):
    """Whether one letter more, less or other makes a name of the other."""
    if abs(len(first) - len(second)) > 1 or first == second:
        return False
    short, long = sorted((first, second), key=len)
    equal = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), None)
    if equal is None:
        return True
    rest = short[equal:] if len(short) < len(long) else short[equal + 1 :]
    return rest == long[equal + 1 :]


@functools.cache
def stem(name):
    """The words of a name without their endings: "PipeliningOptions" is (pipelin, option)."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)
    return tuple(map(_stem_of_word, map(str.lower, words)))


def _stem_of_word(word):
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    return word[:-1] if word[-2:-1] == word[-1] else word  # "planner" is "plan", too.


def alike(first, second):
    """Whether a reader takes one name for the other."""
    if first.lower() == second.lower() or differ_by_a_letter(first.lower(), second.lower()):
        return True
    errors = (name.removesuffix("Error") for name in (first, second))
    # Not "Record" and "RecordError", but "UnsupportedOpcode" and "UnsupportedOpcodeError".
    same_error = len(set(errors)) == 1 and len(re.findall("[A-Z]", min(first, second))) > 1
    return same_error or stem(first) == stem(second)


def keys(name):
    """What a name has in common with each name that is `alike`."""
    lower = name.lower()
    shorter = (lower[:place] + lower[place + 1 :] for place in range(len(lower)))
    return {lower, *shorter, stem(name), name.removesuffix("Error")}


def confused(classes):
    """The pairs of classes of which a reader takes one for the other."""
    with_key = defaultdict(list)
    for number, (name, _) in enumerate(classes):
        for key in keys(name):
            with_key[key].append(number)
    pairs = {pair for group in with_key.values() for pair in itertools.combinations(group, 2)}
    return [
        f"{first} ({home}) and {second} ({other})"
        for (first, home), (second, other) in ((classes[a], classes[b]) for a, b in sorted(pairs))
        if alike(first, second)
    ]


def test_public_classes_differ_by_more_than_a_letter():
    vendor = vendor_classes_of_one_name()
    found = [(name, home) for name, home in public_classes() if home not in EARLIER_RELEASES]
    assert len(found) > 200
    names = {name for name, home in found if not home.startswith(TWINS)}
    found = [one for one in found if not (one[1].startswith(TWINS) and one[0] in names)]
    first_of_vendor = {name: home for name, home in reversed(found) if name in vendor}
    classes = [(name, home) for name, home in found if first_of_vendor.get(name, home) == home]
    assert confused(classes) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("PipelineOptions", "PipeliningOptions"),
        ("PlannerOptions", "PlanningOptions"),
        ("UnsupportedOpcode", "UnsupportedOpcodeError"),
        ("Buffer", "Buffers"),
        ("Trace", "Tracer"),
        ("Loop", "Loop"),
    ],
)
def test_the_check_sees_names_that_are_alike(first, second):
    assert confused([(first, "a.py"), (second, "b.py")])


@pytest.mark.parametrize(
    ("first", "second"),
    [("PipelineShape", "PipelineStage"), ("Record", "RecordError"), ("Plan", "PlanMemory")],
)
def test_the_check_leaves_other_names_alone(first, second):
    assert not confused([(first, "a.py"), (second, "b.py")])
