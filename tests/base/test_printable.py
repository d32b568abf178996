"""Texts of files, without characters that act on terminals."""

import pytest

from ipu_tf.base.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("net/dense_1 ä 層\t\n", "net/dense_1 ä 層\t\n"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b\x7f\r", r"\x9b\x7f\r"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\udc9b", r"\udc9b"),
    ],
)
def test_texts(text, shown):
    assert printable(text) == shown
    assert printable({text: [text, 1, None, [1, 2.5]]}) == {shown: [shown, 1, None, [1, 2.5]]}
