"""docs/compatibility.md and the table of names that do not exist here."""

from pathlib import Path

import pytest

from ipu_tf.compat import missing
from ipu_tf.compat.document import document
from ipu_tf.compat.states import State, imported_name, states
from ipu_tf.compat.vendor_api import vendor_api

PAGE = Path(__file__).resolve().parents[2] / "docs/compatibility.md"

pytestmark = pytest.mark.usefixtures("vendor_names")


def test_the_page_is_up_to_date():
    page = PAGE.read_text()
    assert document(page) == page, "run python -m ipu_tf.compat.document"


def test_every_name_has_a_state_and_names_that_do_not_work_say_why():
    found = states()
    assert [name.vendor_name for name in found] == list(vendor_api().values())
    for name in found:
        assert bool(name.why) == (name.state is not State.WORKS), name.vendor_name.name


def test_every_reason_is_of_a_name_that_does_not_exist():
    raising = [name.vendor_name.name for name in states() if name.state is State.RAISES]
    for begin in missing.REASONS:
        assert any(name == begin or name.startswith(f"{begin}.") for name in raising), begin


def test_a_name_without_a_reason_is_an_error():
    with pytest.raises(KeyError, match="nonsense"):
        missing.reason("nonsense.of.nobody")
    with pytest.raises(ValueError, match="no module of the vendor's is called 'nonsense'"):
        imported_name("nonsense")
