// Tables that sort by a column and search rows.

const ROWS_AT_ONCE = 200;

/**
 * Returns a table.
 *
 * A column has a `name` and, for numbers, a `unit` of `units`. `rows` are lists of cells. `total`
 * is a last row. `search` names what can be searched for. `sorted` is the column to begin with,
 * -1 for the order of the rows; numbers begin with the largest. `open(row)` makes rows open.
 */
function dataTable({ caption, columns, rows, total = null, search = null, sorted = -1, open = null }) {
  const state = {
    column: sorted,
    down: sorted >= 0 && columns[sorted].unit !== undefined,
    text: "",
    shown: ROWS_AT_ONCE,
  };
  const body = h("tbody");
  const status = h("p", { class: "status", role: "status" });
  const more = h("button", {
    type: "button",
    click: () => {
      state.shown += 10 * ROWS_AT_ONCE;
      fill();
    },
  });
  const heads = columns.map((column, index) =>
    h(
      "th",
      { scope: "col", class: column.unit === undefined ? null : "number" },
      h("button", { type: "button", click: () => sort(index) }, column.name),
    ),
  );

  function sort(index) {
    state.down = state.column === index ? !state.down : columns[index].unit !== undefined;
    state.column = index;
    fill();
  }

  function chosen() {
    const wanted = state.text.toLowerCase();
    const found = wanted
      ? rows.filter((row) =>
          row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(wanted)),
        )
      : rows.slice();
    if (state.column < 0) return found;
    const side = state.down ? -1 : 1;
    const compare =
      columns[state.column].unit === undefined
        ? (a, b) => String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true })
        : (a, b) => (a ?? -Infinity) - (b ?? -Infinity);
    return found.sort((a, b) => side * compare(a[state.column], b[state.column]));
  }

  function cell(value, column, index, row) {
    if (column.unit !== undefined) {
      return h(
        "td",
        { class: "number" },
        value === null || value === undefined ? "–" : units[column.unit](value),
      );
    }
    if (index === 0) {
      const text = String(value ?? "–");
      const name =
        open && row ? h("button", { type: "button", class: "link", click: () => open(row) }, text) : text;
      return h("th", { scope: "row" }, name);
    }
    return h(
      "td",
      {},
      value === null || value === undefined
        ? "–"
        : typeof value === "boolean"
          ? value
            ? "yes"
            : "no"
          : String(value),
    );
  }

  function fill() {
    const found = chosen();
    const line = (row, opens) =>
      h(
        "tr",
        {},
        columns.map((column, index) => cell(row[index], column, index, opens ? row : null)),
      );
    body.replaceChildren(...found.slice(0, state.shown).map((row) => line(row, true)));
    heads.forEach((head, index) => {
      if (index === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    more.hidden = found.length <= state.shown;
    more.textContent = `Show more of ${whole.format(found.length)} rows`;
    status.textContent = state.text
      ? `${whole.format(found.length)} of ${whole.format(rows.length)} rows match`
      : `${whole.format(rows.length)} row${rows.length === 1 ? "" : "s"}`;
  }

  const foot = total
    ? h(
        "tfoot",
        {},
        h(
          "tr",
          {},
          columns.map((column, index) => cell(total[index], column, index, null)),
        ),
      )
    : null;
  const table = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body, foot);
  const scroll = h(
    "div",
    { class: "scroll", role: "region", "aria-label": `${caption}, table`, tabindex: "0" },
    table,
  );
  const parts = [scroll, h("div", { class: "below" }, status, more)];
  if (search) {
    const field = h("input", {
      type: "search",
      input: (event) => {
        state.text = event.target.value;
        fill();
      },
    });
    parts.unshift(h("label", { class: "choice search" }, h("span", {}, search), field));
  }
  fill();
  return h("div", { class: "table" }, parts);
}
