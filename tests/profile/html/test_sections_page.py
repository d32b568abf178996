"""Pages of sections: charts and tables for comparisons and sweeps."""

import pytest

from ipu_tf.profile.html import Chart, Section, Table, sections_page
from tests.profile.html.pages import SCRIPT_END, data, elements


def section(**changes):
    chart = Chart(
        title="Throughput",
        description="Samples a second against memory.",
        option={"xAxis": {"type": "value"}, "yAxis": {"type": "value"}, "series": []},
        units={"x": "KiB", "y": "samples/s"},
    )
    table = Table(title="Points", columns=("batch", "speed"), rows=((4, 915.0), (8, None)))
    return Section(**{"title": "Sweep", "charts": (chart,), "tables": (table,), **changes})


def test_a_page_holds_its_sections():
    page = sections_page("A sweep", [section(text=("All estimates.",))])
    (found,) = data(page)["sections"]
    assert found["text"] == ["All estimates."]
    assert found["charts"][0]["units"] == {"x": "KiB", "y": "samples/s"}
    assert found["tables"][0]["rows"] == [[4, 915.0], [8, None]]


def test_titles_do_not_become_markup():
    page = sections_page(SCRIPT_END, [section(title=SCRIPT_END)], without_scripts=SCRIPT_END)
    plain = sections_page("A sweep", [section()])
    assert [element.tag for element in elements(page)] == [
        element.tag for element in elements(plain)
    ]
    assert data(page)["sections"][0]["title"] == SCRIPT_END


def test_rows_have_an_entry_for_every_column():
    with pytest.raises(ValueError, match=r"Table.rows\[1\] must have 2 entries, one for each"):
        Table(title="Points", columns=("batch", "speed"), rows=((4, 915.0), (8,)))


def test_units_name_columns():
    with pytest.raises(ValueError, match="Table.units must name columns, batch. Received: speed"):
        Table(title="Points", columns=("batch",), rows=(), units={"speed": "samples/s"})


def test_numbers_are_finite():
    table = Table(title="Points", columns=("speed",), rows=((float("nan"),),))
    with pytest.raises(ValueError, match="JSON compliant"):
        sections_page("A sweep", [section(tables=(table,))])
