// Tiles: the chip as a grid, in numerical order of the tiles.

const TILE_METRICS = {
  memory: {
    unit: "KiB",
    write: (value) => `${kib(value)} KiB`,
    values: (ipu, step) => (step === null || !ipu.hasTensors ? ipu.tileBytes : ipu.tileBytesAt(step)),
    scale: (ipu, most) => Math.max(ipu.limit, most),
  },
  utilisation: {
    unit: "percent",
    write: percent,
    values: (ipu, step) => shareOf(ipu, step, "compute"),
    scale: () => 1,
  },
  "waits for other tiles": {
    unit: "percent",
    write: percent,
    values: (ipu, step) => shareOf(ipu, step, "wait"),
    scale: () => 1,
  },
};

/** Returns the share of a step, or of the work of an IPU in a run, that every tile computes or waits. */
function shareOf(ipu, step, figure) {
  const parts =
    step === null
      ? ipu.stagesThere.map((stage) => [
          stage,
          Array.from({ length: stage.count }, (_, index) => [
            index,
            ipu.device.times[stage.steps.phase[index]],
          ]),
        ])
      : [[ipu.stage, [[step, 1]]]];
  const all = sum(
    parts.map(([stage, steps]) => sum(steps.map(([index, times]) => times * stage.cycles[index]))),
  );
  const values = new Float64Array(ipu.device.tiles);
  for (const [stage, steps] of parts)
    stage.sumOfTiles(steps, figure).forEach((cycles, tile) => (values[tile] += cycles / Math.max(1, all)));
  return values;
}

function tilesView(program) {
  const { device } = program;
  const start = device.ipus.reduce((best, ipu) => (ipu.maxBytes > best.maxBytes ? ipu : best));
  const state = { device, ipu: start, metric: "memory", step: null, own: false };
  const chart = tilesChart(state);
  const field = h("input", {
    type: "number",
    min: "0",
    placeholder: "whole run",
    "aria-label": "Step, empty for the whole run",
  });
  field.addEventListener("change", () => {
    const step = field.value === "" ? null : Math.round(Number(field.value));
    if (step !== null && !(step >= 0 && step < state.ipu.stage.count)) return;
    state.step = step;
    chart.update();
  });
  const metrics = metricsOf(device);
  const controls = h(
    "div",
    { class: "controls" },
    device.ipus.length > 1
      ? select(
          "IPU",
          device.ipus.map((ipu, index) => [index, ipu.label]),
          device.ipus.indexOf(start),
          (index) => {
            state.ipu = device.ipus[index];
            state.step = null;
            field.value = "";
            chart.index = null;
            chart.update();
          },
        )
      : null,
    select(
      "Colour",
      metrics.map((name) => [name, name]),
      state.metric,
      (name) => {
        state.metric = name;
        chart.update();
      },
    ),
    select(
      "Scale",
      [
        ["whole", "from none to the limit"],
        ["own", "from the least to the most"],
      ],
      "whole",
      (scale) => {
        state.own = scale === "own";
        chart.update();
      },
    ),
    h("label", { class: "choice" }, h("span", {}, "Step"), field),
  );
  return [controls, ...tensorCaveats(device), chart.element];
}

/** Returns what tiles can be coloured by. */
function metricsOf(device) {
  const known = device.stages.every((stage) => stage.hasTiles);
  return Object.keys(TILE_METRICS).filter((name) => known || name === "memory");
}

/** Returns how many tiles a row of the grid has: a number that leaves no gaps, if there is one. */
function gridColumns(tiles) {
  const wanted = Math.ceil(Math.sqrt(2 * tiles));
  for (let off = 0; off <= wanted / 3; off += 1) {
    for (const columns of [wanted + off, wanted - off])
      if (columns > 0 && tiles % columns === 0) return columns;
  }
  return wanted;
}

function tilesChart(state) {
  const { tiles } = state.device;
  const columns = gridColumns(tiles);
  const rows = Math.ceil(tiles / columns);
  const place = () =>
    state.step === null || (state.metric === "memory" && !state.ipu.hasTensors)
      ? state.metric === "memory"
        ? "at the peak"
        : "in the whole run"
      : `at step ${state.step}`;
  const write = (value) => TILE_METRICS[state.metric].write(value);
  const shown = () => TILE_METRICS[state.metric].values(state.ipu, state.step);
  return new ChartPanel({
    title: "The tiles of a chip",
    height: Math.min(720, 120 + Math.max(60, 20 * rows)),
    describe: () => {
      const values = shown();
      const most = values.reduce((best, value, tile) => (value > values[best] ? tile : best), 0);
      return `${state.ipu.label}, ${state.metric} ${place()}: most on tile ${most} with ${write(values[most] ?? 0)}, mean ${write(sum([...values]) / Math.max(1, tiles))}`;
    },
    option: (color) => {
      const values = (state.values = shown());
      const most = values.reduce((best, value) => Math.max(best, value), 0);
      const least = values.reduce((best, value) => Math.min(best, value), most);
      const scale = state.own ? [least, most] : [0, TILE_METRICS[state.metric].scale(state.ipu, most)];
      return {
        grid: { left: 50, right: 20, top: 10, bottom: 80 },
        tooltip: {
          formatter: ({ dataIndex: tile }) => tip(`tile ${tile}`, [[state.metric, write(values[tile])]]),
        },
        xAxis: {
          type: "category",
          data: Array.from({ length: columns }, (_, column) => column),
          axisTick: { show: false },
          name: "tile, plus the row's first",
          nameLocation: "middle",
          nameGap: 24,
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: Array.from({ length: rows }, (_, row) => row * columns),
          axisTick: { show: false },
        },
        visualMap: {
          min: scale[0],
          max: scale[1],
          dimension: 2,
          orient: "horizontal",
          left: "center",
          bottom: 0,
          calculable: false,
          text: [write(scale[1]), write(scale[0])],
          inRange: { color: color.ramp },
        },
        series: [
          {
            type: "heatmap",
            progressive: 0,
            data: Array.from(values, (value, tile) => [tile % columns, Math.floor(tile / columns), value]),
            itemStyle: { borderColor: color.back, borderWidth: 1 },
            emphasis: { itemStyle: { borderColor: color.limit, borderWidth: 2 } },
          },
        ],
      };
    },
    cursor: {
      count: () => tiles,
      start: () => 0,
      row: () => columns,
      target: (tile) => ({ seriesIndex: 0, dataIndex: tile }),
      describe: (tile) => `tile ${tile}: ${write(state.values[tile])}`,
    },
    table: () =>
      dataTable({
        caption: `${state.metric} of every tile of ${state.ipu.label} ${place()}`,
        columns: [
          { name: "tile" },
          {
            name: TILE_METRICS[state.metric].unit === "KiB" ? `${state.metric}, KiB` : state.metric,
            unit: TILE_METRICS[state.metric].unit,
          },
        ],
        total: state.metric === "memory" ? ["all", sum([...shown()])] : null,
        rows: Array.from(shown(), (value, tile) => [`tile ${tile}`, value]),
        sorted: 1,
      }),
  });
}
