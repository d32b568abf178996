// A page of sections with charts and tables.

/** Returns an option whose axes and tooltips write numbers with their units. */
function withUnits(option, axisUnits) {
  const axis = (name, entry) => {
    const unit = axisUnits[name];
    if (!unit || !entry) return entry;
    return { ...entry, axisLabel: { formatter: units[unit], ...entry.axisLabel } };
  };
  const all = (name, entry) =>
    Array.isArray(entry) ? entry.map((one) => axis(name, one)) : axis(name, entry);
  const write = units[axisUnits.y ?? axisUnits.x ?? ""];
  const text = (value) =>
    Array.isArray(value)
      ? value
          .map((one, index) =>
            typeof one === "number" ? units[axisUnits[["x", "y"][index]] ?? ""](one) : one,
          )
          .join(", ")
      : typeof value === "number"
        ? write(value)
        : String(value ?? "–");
  const lines = (params) =>
    [params]
      .flat()
      .map(({ seriesName, name, value, color }) => [
        seriesName?.startsWith("series") ? name : seriesName,
        text(value),
        typeof color === "string" ? color : undefined,
      ]);
  return {
    ...option,
    tooltip: {
      ...option.tooltip,
      formatter: (params) => tip([params].flat()[0].name || [params].flat()[0].seriesName, lines(params)),
    },
    xAxis: all("x", option.xAxis),
    yAxis: all("y", option.yAxis),
  };
}

/** Returns the entries of a chart, to move through with the keyboard. */
function entriesOf(option) {
  return [option.series ?? []]
    .flat()
    .flatMap((series, seriesIndex) =>
      (series.data ?? []).map((entry, dataIndex) => ({ series, seriesIndex, dataIndex, entry })),
    );
}

function sectionChart(chart) {
  const entries = entriesOf(chart.option);
  const axes = [chart.option.xAxis, chart.option.yAxis].flat().filter((axis) => axis?.type === "category");
  const text = ({ series, dataIndex, entry }) => {
    const value = entry?.value ?? entry;
    const write = (one, index) =>
      typeof one === "number"
        ? units[chart.units[["x", "y"][index]] ?? chart.units.y ?? chart.units.x ?? ""](one)
        : one;
    const label = entry?.name ?? axes[0]?.data?.[dataIndex] ?? "";
    return [series.name, label, Array.isArray(value) ? value.map(write).join(", ") : write(value, 1)]
      .filter((part) => part !== "" && part !== undefined)
      .join(": ");
  };
  return new ChartPanel({
    title: chart.title,
    height: chart.height,
    describe: () => chart.description,
    option: () => structuredCloneOption(withUnits(chart.option, chart.units)),
    cursor: {
      count: () => entries.length,
      target: (index) => ({ seriesIndex: entries[index].seriesIndex, dataIndex: entries[index].dataIndex }),
      describe: (index) => text(entries[index]),
    },
  });
}

/** Returns an option that ECharts may change; functions stay. */
const structuredCloneOption = (value) =>
  Array.isArray(value)
    ? value.map(structuredCloneOption)
    : value && typeof value === "object"
      ? Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, structuredCloneOption(entry)]))
      : value;

function section({ title, text, charts: drawn, tables }) {
  return h(
    "section",
    {},
    h("h2", {}, title),
    text.map((paragraph) => h("p", {}, paragraph)),
    drawn.map((chart) => {
      const panel = sectionChart(chart);
      panel.caption.after(h("p", { class: "hint" }, chart.description));
      return panel.element;
    }),
    tables.map((table) =>
      dataTable({
        caption: table.title,
        columns: table.columns.map((name, index) => {
          const numeric = table.rows.some((row) => typeof row[index] === "number");
          return { name, unit: table.units[name] ?? (numeric ? "" : undefined) };
        }),
        rows: table.rows,
        search: table.rows.length > 20 ? "Search" : null,
      }),
    ),
  );
}

function start(data) {
  document
    .getElementById("root")
    .append(
      h(
        "header",
        {},
        h(
          "div",
          { class: "head" },
          h("h1", {}, data.title),
          h("div", { class: "switches" }, themeSwitches()),
        ),
        h("p"),
      ),
      h("main", {}, data.sections.map(section)),
      footer(data),
      h("div", { id: "announcer", class: "announcer", role: "status", "aria-live": "polite" }),
    );
  applyTheme();
  for (const [name, printing] of [
    ["beforeprint", true],
    ["afterprint", false],
  ]) {
    addEventListener(name, () => {
      theme.printing = printing;
      applyTheme();
    });
  }
}

begin(start);
