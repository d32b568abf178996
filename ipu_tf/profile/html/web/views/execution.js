// Execution: a flame chart of an IPU; a step opens its supersteps and its tiles.

function executionView(program) {
  const { device } = program;
  const flames = new Map();
  const state = { ipu: device.ipus[0] };
  state.flame = () => {
    if (!flames.has(state.ipu)) flames.set(state.ipu, flame(state.ipu));
    return flames.get(state.ipu);
  };
  const detail = h("div", { "aria-live": "polite" });
  const chart = executionChart(state, (index) => {
    const bar = state.flame().bars[index];
    if (bar.stage) detail.replaceChildren(...executionCard(bar.stage, bar.step));
    else chart.zoomTo(bar.start / state.flame().cycles, bar.end / state.flame().cycles);
  });
  const choose = (index) => {
    state.ipu = device.ipus[index];
    chart.index = null;
    chart.window = [0, 100];
    chart.update();
    detail.replaceChildren();
  };
  const note =
    device.isPipeline || device.figures.micro_batches > 1
      ? [
          h(
            "p",
            {},
            `One micro-batch of an IPU and its weight update. A run has ${device.figures.micro_batches} micro-batches; the view of the pipeline shows when stages run, wait and send.`,
          ),
        ]
      : [];
  const controls =
    device.ipus.length > 1
      ? [
          h(
            "div",
            { class: "controls" },
            select(
              "IPU",
              device.ipus.map((ipu, index) => [index, ipu.label]),
              0,
              choose,
            ),
          ),
        ]
      : [];
  return [...note, ...controls, chart.element, detail];
}

function executionChart(state, open) {
  const { bars } = state.flame();
  const line = (bar) =>
    `${bar.label}${bar.stage && bar.label !== bar.stage.name(bar.step) ? ` of ${bar.stage.name(bar.step)}` : ""}: ${units.cycles(bar.end - bar.start)} cycles from ${units.cycles(bar.start)}`;
  return new ChartPanel({
    title: `Cycles of ${state.ipu.device.words.place}s, steps and supersteps`,
    height: 110 + 30 * state.flame().rows.length,
    describe: () =>
      `${state.ipu.label}: ${units.cycles(state.flame().cycles)} cycles; ${kindsOf(state.ipu)
        .map(([kind, cycles]) => `${kind} ${units.cycles(cycles)}`)
        .join(", ")}`,
    option: (color) => {
      const { bars: shown, rows, cycles } = state.flame();
      return {
        grid: { left: 90, right: 30, top: 10, bottom: 75 },
        tooltip: {
          formatter: ({ dataIndex }) => {
            const bar = shown[dataIndex];
            const share = (bar.end - bar.start) / Math.max(1, cycles);
            const where = bar.stage
              ? [
                  ["step", bar.stage.name(bar.step)],
                  [state.ipu.device.words.place, cut(layerName(bar.stage.layer(bar.step)), 50)],
                ]
              : [];
            return tip(bar.label, [
              ...where,
              ["cycles", units.cycles(bar.end - bar.start)],
              ["time", duration((bar.end - bar.start) / state.ipu.device.clockHz)],
              ["share", percent(share)],
            ]);
          },
        },
        xAxis: {
          type: "value",
          min: 0,
          max: Math.max(1, cycles),
          name: "cycles",
          nameLocation: "middle",
          nameGap: 24,
          axisLabel: { formatter: shortCycles },
        },
        yAxis: {
          type: "category",
          inverse: true,
          data: rows,
          axisTick: { show: false },
          axisLabel: { interval: 0 },
        },
        dataZoom: zoomX(),
        series: [
          {
            type: "custom",
            progressive: 0,
            renderItem: drawBars(shown, rows.length, color),
            encode: { x: [1, 2], y: 0 },
            data: shown.map((bar) => [bar.row, bar.start, bar.end]),
            clip: true,
          },
        ],
      };
    },
    activate: open,
    cursor: {
      count: () => state.flame().bars.length,
      fraction: (index) =>
        (state.flame().bars[index].start + state.flame().bars[index].end) /
        2 /
        Math.max(1, state.flame().cycles),
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) => line(state.flame().bars[index]),
      move: (index, key) => besides(state.flame().bars, index, key),
    },
    table: () => kindTable(state.ipu),
  });
}

/** Returns the bar in the next row at the time of a bar, for the keys up and down. */
function besides(bars, index, key) {
  const side = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (!side) return null;
  const { row, start, end } = bars[index];
  const later = (other) => side * (other.row - row) > 0 && other.start < end && other.end > start;
  const order = side > 0 ? bars.findIndex(later) : bars.findLastIndex(later);
  if (order < 0) return index;
  return bars.findIndex((other) => other.row === bars[order].row && later(other));
}

/** Returns the cycles of an IPU by kind: of one micro-batch and the update. */
function kindsOf(ipu) {
  return KINDS.map((kind) => [
    kind,
    sum(
      ipu.stagesThere.map((stage) =>
        sum(Array.from({ length: stage.count }, (_, step) => stage.total(step, kind))),
      ),
    ),
  ]);
}

function kindTable(ipu) {
  const rows = ipu.stagesThere.flatMap((stage) =>
    (ipu.device.phases.length ? PHASES : ["all programs"]).map((phase, number) => {
      const steps = Array.from({ length: stage.count }, (_, step) => step).filter(
        (step) => stage.steps.phase[step] === number,
      );
      const kinds = KINDS.map((kind) => sum(steps.map((step) => stage.total(step, kind))));
      const name = ipu.device.phases.length ? `stage ${stage.index}, ${phase}` : phase;
      return [name, ipu.device.times[number], ...kinds, sum(kinds)];
    }),
  );
  return dataTable({
    caption: ipu.device.phases.length
      ? `Cycles of ${ipu.label} by phase: one micro-batch, and the update`
      : `Cycles of ${ipu.label}`,
    columns: [
      { name: "phase" },
      { name: "times a run", unit: "cycles" },
      ...[...KINDS, "all"].map((name) => ({ name, unit: "cycles" })),
    ],
    rows,
    total: ["all", null, ...[2, 3, 4, 5, 6].map((column) => sum(rows.map((row) => row[column])))],
  });
}

/** Returns what a step does: its supersteps, and its tiles. */
function executionCard(stage, step) {
  const { device } = stage;
  const { supersteps } = stage;
  const repeats = stage.steps.repeats[step];
  const rows = stage.supersteps_of(step).map((index) => {
    const compute = supersteps.compute[index];
    const balance = compute ? supersteps.busy[index] / (compute * device.tiles) : null;
    return [
      stage.text(supersteps.name[index]),
      ...["sync", "exchange", "compute", "host"].map((kind) => supersteps[kind][index]),
      balance,
      supersteps.bytes[index],
    ];
  });
  const flops = stage.steps.flops[step] * repeats;
  return [
    h(
      "div",
      { class: "card" },
      h("h3", {}, `Step ${step}: ${stage.name(step)}`),
      facts([
        [
          capital(device.words.place),
          layerName(stage.layer(step)),
          stage.text(stage.steps.opName[step]) || null,
        ],
        [
          "Phase",
          device.phases.length ? stage.phase(step) : null,
          `opcode ${stage.text(stage.steps.opcode[step])}`,
        ],
        [
          "Cycles",
          units.cycles(stage.cycles[step]),
          repeats > 1
            ? `${whole.format(repeats)} repetitions`
            : duration(stage.cycles[step] / device.clockHz),
        ],
        [
          "Arithmetic",
          count(flops, "FLOP"),
          stage.cycles[step]
            ? `${percent(stage.steps.peakCycles[step] / stage.cycles[step])} of the peak`
            : null,
        ],
        ["Plan", stage.text(stage.steps.plan[step]) || "–", null],
      ]),
      dataTable({
        caption: "Supersteps of one repetition, in order",
        columns: [
          { name: "superstep" },
          ...["sync", "exchange", "compute", "host"].map((name) => ({ name, unit: "cycles" })),
          { name: "tile balance", unit: "percent" },
          { name: "exchanged bytes", unit: "cycles" },
        ],
        rows,
        total: [
          "all",
          ...[1, 2, 3, 4].map((column) => sum(rows.map((row) => row[column]))),
          null,
          sum(rows.map((row) => row[6])),
        ],
      }),
    ),
    ...stepTiles(stage, step),
  ];
}
