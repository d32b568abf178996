// Plans: how a matrix product or convolution is split over tiles, drawn.

function plansView(program) {
  const ops = program.tileOps;
  if (!ops.length) return caveats(["No operation of this program runs tile by tile."]);
  const state = { op: ops[0] };
  const chart = planChart(state);
  const text = h("div", { class: "card" });
  const show = (op) => {
    state.op = op;
    text.replaceChildren(h("h3", {}, `${layerName(op.layer)}: ${op.type}`), planFacts(op));
    chart.update();
  };
  show(ops[0]);
  const table = dataTable({
    caption: "Operations that run tile by tile",
    columns: [
      { name: "layer" },
      { name: "operation" },
      { name: "sizes" },
      { name: "split into" },
      { name: "tiles", unit: "cycles" },
      { name: "partials" },
    ],
    rows: ops.map((op, index) =>
      Object.assign([layerName(op.layer), op.type, sizes(op), splits(op) || "1", op.tiles, op.partials], {
        index,
      }),
    ),
    search: "Search layers",
    open: (row) => {
      show(ops[row.index]);
      text.scrollIntoView({ block: "nearest" });
      announce(`Plan of ${layerName(ops[row.index].layer)}`);
    },
  });
  return [text, chart.element, table];
}

const sizes = (op) =>
  `${
    Object.values(op.sizes)
      .filter((size) => size > 1)
      .join(" x ") || 1
  } ${op.dtype}`;
const splits = (op) =>
  Object.entries(op.splits)
    .filter(([, number]) => number > 1)
    .map(([name, number]) => `${words(name)} ${number}`)
    .join(" x ");

function planFacts(op) {
  const steps = Object.entries(op.serial)
    .filter(([, number]) => number > 1)
    .map(([name, number]) => `${words(name)} ${number}`);
  return facts([
    ["Operation", op.what, sizes(op)],
    ["Tiles", whole.format(op.tiles), splits(op) || "not split"],
    ["One after the other on a tile", steps.join(", ") || "nothing", null],
    ["Vertices", words(op.method), `grain ${op.grain}`],
    ["Partials", op.partials, op.stochasticRounding ? "stochastic rounding" : null],
  ]);
}

/** Returns the planes of an operation: two extents each, with their sizes and numbers of parts. */
function planes(op) {
  const of = (name) => ({ name: words(name), size: op.sizes[name] ?? 1, parts: op.splits[name] ?? 1 });
  const plane = (title, x, y) => ({ title, x: of(x), y: of(y) });
  const found =
    "rows" in op.sizes
      ? [
          plane("left operand", "reduction", "rows"),
          plane("right operand", "columns", "reduction"),
          plane("result", "columns", "rows"),
          plane("batch", "batch", ""),
        ]
      : [
          plane("field of the result", "field_columns", "field_rows"),
          plane("channels", "in_channels", "out_channels"),
          plane("filter", "kernel_columns", "kernel_rows"),
          plane("batch and groups", "batch", "groups"),
        ];
  return found.filter(({ x, y }) => x.size > 1 || y.size > 1);
}

function planChart(state) {
  const line = ({ title, x, y }) =>
    `${title}: ${[x, y]
      .filter(({ size }) => size > 1)
      .map(
        ({ name, size, parts: number }) =>
          `${name} ${size}${number > 1 ? ` in ${number} parts` : ", not split"}`,
      )
      .join(", ")}`;
  return new ChartPanel({
    title: "The split over tiles",
    height: 330,
    describe: () => planes(state.op).map(line).join("; "),
    option: (color) => {
      const shown = planes(state.op);
      return {
        tooltip: {
          formatter: ({ dataIndex }) =>
            tip(
              shown[dataIndex].title,
              [shown[dataIndex].x, shown[dataIndex].y].map(({ name, size, parts: number }) => [
                name || "–",
                number > 1
                  ? `${size} in ${number} parts of at most ${Math.ceil(size / number)}`
                  : `${size}, not split`,
              ]),
            ),
        },
        series: [
          {
            type: "custom",
            progressive: 0,
            coordinateSystem: "none",
            data: shown.map((_, index) => [index]),
            renderItem: (params, api) =>
              drawPlane(shown[params.dataIndex], params.dataIndex, shown.length, api, color),
          },
        ],
      };
    },
    cursor: {
      count: () => planes(state.op).length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) => line(planes(state.op)[index]),
    },
    table: () =>
      dataTable({
        caption: "Extents and their parts",
        columns: [
          { name: "extent" },
          { name: "size", unit: "cycles" },
          { name: "parts", unit: "cycles" },
          { name: "largest part", unit: "cycles" },
        ],
        rows: Object.entries(state.op.sizes).map(([name, size]) => [
          words(name),
          size,
          state.op.splits[name] ?? 1,
          Math.ceil(size / (state.op.splits[name] ?? 1)),
        ]),
      }),
  });
}

/** Returns one plane as a rectangle that is cut into parts, the part of one tile marked. */
function drawPlane({ title, x, y }, index, planesShown, api, color) {
  const cell = api.getWidth() / planesShown;
  const ratio = Math.min(2, Math.max(0.5, Math.sqrt(x.size / y.size)));
  const room = { width: cell - 90, height: api.getHeight() - 95 };
  const width = Math.min(room.width, room.height * ratio, 330);
  const height = Math.min(room.height, width / ratio);
  const left = index * cell + (cell - width) / 2 + 10;
  const top = 40 + (room.height - height) / 2;
  const cuts = (extent, length) => {
    const shown = Math.min(extent.parts, 96);
    return Array.from({ length: shown - 1 }, (_, number) => ((number + 1) * length) / shown);
  };
  const line = (shape, lineWidth = 1) => ({
    type: "line",
    shape,
    style: { stroke: color.quiet, lineWidth },
    silent: true,
  });
  const label = (text, at, more) => ({
    type: "text",
    silent: true,
    style: { text, ...at, fill: color.text, fontSize: 12, align: "center", verticalAlign: "middle", ...more },
  });
  const legend = (extent) =>
    `${extent.name} ${whole.format(extent.size)}${extent.parts > 1 ? ` in ${extent.parts}` : ""}`;
  return {
    type: "group",
    children: [
      {
        type: "rect",
        shape: { x: left, y: top, width, height },
        style: { fill: color.forward, opacity: 0.35, stroke: color.text, lineWidth: 1.5 },
      },
      {
        type: "rect",
        silent: true,
        shape: { x: left, y: top, width: width / x.parts, height: height / y.parts },
        style: { fill: color.exchange, stroke: color.text, lineWidth: 1 },
      },
      ...cuts(x, width).map((at) => line({ x1: left + at, x2: left + at, y1: top, y2: top + height })),
      ...cuts(y, height).map((at) => line({ x1: left, x2: left + width, y1: top + at, y2: top + at })),
      label(title, { x: left + width / 2, y: top - 22 }, { fontWeight: "bold", fontSize: 13 }),
      label(legend(x), { x: left + width / 2, y: top + height + 14 }),
      ...(y.name
        ? [{ ...label(legend(y), { x: 0, y: 0 }), x: left - 16, y: top + height / 2, rotation: Math.PI / 2 }]
        : []),
    ],
  };
}
