"""The tree of replicas is the same however processes share them out."""

import pytest

from ipu_tf.processes.reduction_tree import nodes, pairs, reduced


def join(left, right):
    return f"({left}+{right})"


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (1, "0"),
        (2, "(0+1)"),
        (3, "((0+1)+2)"),
        (4, "((0+1)+(2+3))"),
        (6, "(((0+1)+(2+3))+(4+5))"),
        (7, "(((0+1)+(2+3))+((4+5)+6))"),
    ],
)
def test_the_tree_is_balanced(group, text):
    assert reduced({number: str(number) for number in range(group)}, group, join) == text


@pytest.mark.parametrize("group", range(1, 25))
def test_processes_reduce_by_the_tree_of_one(group):
    whole = reduced({number: str(number) for number in range(group)}, group, join)
    for count in (count for count in range(1, group + 1) if group % count == 0):
        found = {}
        for first in range(0, group, count):
            own = {number: str(number) for number in range(first, first + count)}
            for left, right in pairs(first, count, group):
                own[left] = join(own[left], own.pop(right))
            assert tuple(own) == nodes(first, count, group)
            found |= own
        assert reduced(found, group, join) == whole


def test_a_process_of_three_replicas_sends_two_nodes():
    assert nodes(0, 3, 6) == (0, 2)
    assert nodes(3, 3, 6) == (3, 4)
    assert nodes(4, 4, 8) == (4,)
