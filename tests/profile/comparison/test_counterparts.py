"""Layers and programs of two reports that are the same but for Keras' numbers."""

import pytest

from ipu_tf.profile.comparison.counterparts import layer_counterparts, program_counterparts


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("", "", " "),
        ("(host) loss", "loss", "loss=loss (host)=-"),
        ("dense dense_1", "dense dense_1", "dense=dense dense_1=dense_1"),
        # Both models of one process.
        ("m/dense m/dense_1 sgd", "m/dense_2 m/dense_3 sgd_1", None),
        ("m/dense m/dense_1 sgd", "m_1/dense_2 m_1/dense_10 sgd_1", None),
        ("m/dense_9 m/dense_10", "m_1/dense_11 m_1/dense_12", None),
        ("dense_1 dense_2", "dense dense_1", None),
        # A layer more, or less: equal names stay together.
        ("b_1 b_2 b_3", "b_2 b_3", "b_1=- b_2=b_2 b_3=b_3"),
        ("dense dense_1", "dense dense_1 dense_2", "dense=dense dense_1=dense_1 -=dense_2"),
        ("d d_1", "d_2 d_3 d_4", "d=d_2 d_1=d_3 -=d_4"),
        ("d d_1 d_2", "d_2 d_3", "d=d_2 d_1=d_3 d_2=-"),
        # Blocks inside of a numbered model.
        ("m/b_1/d m/b_2/d m/b_3/d", "m_4/b_2/d m_4/b_3/d", "b_1"),
        # Names of one's own, and one model of another name.
        ("enc/dense dec/dense", "enc/dense up/dense", "enc/dense=enc/dense dec/dense=up/dense"),
        ("a/d b/d", "c/d e/d", "-=c/d -=e/d a/d=- b/d=-"),
        ("loss a/d", "losses a/d", "a/d=a/d -=losses loss=-"),
        ("m m/d", "m_1 m_1/d", None),
    ],
)
def test_layers(before, after, wanted):
    found = layer_counterparts(before.split(" "), after.split(" "))
    if wanted is None:
        assert found == list(zip(before.split(), after.split(), strict=True))
    elif wanted == "b_1":
        assert dict(found) == {
            "m/b_1/d": None,
            "m/b_2/d": "m_4/b_2/d",
            "m/b_3/d": "m_4/b_3/d",
        }
    elif wanted == " ":
        assert found == [("", "")]
    else:
        lines = sorted(f"{old or '-'}={new or '-'}" for old, new in found)
        assert lines == sorted(wanted.split())


def test_every_name_is_in_one_pair():
    before, after = ["", "a_1", "a_2/b", "a_2", "/".join("x" * 99)], ["", "a_2/b_1", "a_3", "b"]
    found = layer_counterparts(before, after)
    assert sorted(old for old, _ in found if old is not None) == sorted(before)
    assert sorted(new for _, new in found if new is not None) == sorted(after)


def test_programs():
    found = program_counterparts(
        ["m.train_step.0", "m.train_step.1", "m.test_step.0", "f.0"],
        ["m_1.train_step.0", "m_1.train_step.1", "m_1.test_step.0", "g.0"],
    )
    assert set(found) == {
        ("m.train_step.0", "m_1.train_step.0"),
        ("m.train_step.1", "m_1.train_step.1"),
        ("m.test_step.0", "m_1.test_step.0"),
        ("f.0", None),
        (None, "g.0"),
    }
