"""Reports as self-contained HTML files: data, scripts, styles and charts in one page.

A page opens without a network and asks for nothing from one; its content security policy forbids
it. `report_page` makes the page of a report, `sections_page` a page of charts and tables.
"""

from ipu_tf.profile.html.report_page import report_page
from ipu_tf.profile.html.sections import Cell, Chart, Section, Table, Unit, sections_page

__all__ = ["Cell", "Chart", "Section", "Table", "Unit", "report_page", "sections_page"]
