// Pipeline: when stages work, wait and send; their cycles; the memory of each IPU.

function pipelineView(program) {
  const { device } = program;
  const { figures } = device;
  const shares = h(
    "div",
    { class: "card" },
    facts([
      [
        "Schedule",
        figures.schedule,
        `${figures.micro_batches} micro-batches, ${whole.format(device.pipeline.slots.length)} slots`,
      ],
      ["Bubble", percent(figures.bubble_share), "of the IPUs' time"],
      [
        "Links",
        percent(figures.link_cycles / Math.max(1, device.pipeline.cycles)),
        `${units.cycles(figures.link_cycles)} cycles`,
      ],
      [
        "Limited by",
        `stage ${figures.limiting_stage}`,
        `on IPU ${device.stages[figures.limiting_stage].ipu}`,
      ],
      ["Between stages", count(figures.crossing_bytes, "B"), "for a micro-batch"],
    ]),
  );
  return [
    shares,
    ...(device.pipeline.linkCycles.length || !figures.link_cycles
      ? []
      : caveats([
          "This file does not hold the time on links slot by slot, so the chart leaves it out: write the report once more.",
        ])),
    scheduleChart(device).element,
    h("div", { class: "columns" }, stageChart(device).element, ipuMemoryChart(device).element),
  ];
}

/** Returns the passes of a run with their times, and the times in which stages send. */
function played(device) {
  const { slots, linkCycles } = device.pipeline;
  const { stages } = device.figures;
  const works = [];
  const links = [];
  let now = 0;
  slots.forEach((slot, number) => {
    const busy = new Map();
    for (const [stage, backward, batch] of slot) {
      const { ipu, forward_cycles: forward, backward_cycles: back } = stages[stage];
      const begin = now + (busy.get(ipu) ?? 0);
      const cycles = backward ? back : forward;
      works.push({
        stage,
        start: begin,
        end: begin + cycles,
        label: `${backward ? "B" : "F"}${batch}`,
        phase: backward ? "backward" : "forward",
        batch,
      });
      busy.set(ipu, (busy.get(ipu) ?? 0) + cycles);
    }
    const slowest = Math.max(...busy.values());
    const length = slowest + (linkCycles[number] ?? 0);
    if (length > slowest)
      links.push({
        stage: stages.length,
        start: now + slowest,
        end: now + length,
        label: "links",
        phase: "link",
      });
    now += length;
  });
  const { all_reduce_cycles: reduced, update_cycles: update } = device.figures;
  if (reduced)
    links.push({ stage: stages.length, start: now, end: now + reduced, label: "all-reduce", phase: "link" });
  now += reduced;
  for (const { stage, update_cycles: cycles } of stages) {
    if (cycles) works.push({ stage, start: now, end: now + cycles, label: "U", phase: "update" });
  }
  return {
    bars: [...works, ...links].sort((a, b) => a.stage - b.stage || a.start - b.start),
    cycles: now + update,
  };
}

function scheduleChart(device) {
  const { bars, cycles } = played(device);
  const { stages } = device.figures;
  const rows = [...stages.map(({ stage, ipu }) => `stage ${stage}, IPU ${ipu}`), "links"];
  const line = (bar) =>
    `${rows[bar.stage]}, ${bar.batch === undefined ? bar.label : `${bar.phase} of micro-batch ${bar.batch}`}: ${units.cycles(bar.end - bar.start)} cycles from ${units.cycles(bar.start)}`;
  const busyOf = (stage) =>
    sum(bars.filter((bar) => bar.stage === stage && bar.phase !== "link").map((bar) => bar.end - bar.start));
  return new ChartPanel({
    title: "When the stages work (F forward, B backward, U update; gaps are waits)",
    height: 110 + 46 * rows.length,
    describe: () =>
      stages
        .map(
          ({ stage }) => `stage ${stage} works ${percent(busyOf(stage) / Math.max(1, cycles))} of the time`,
        )
        .join(", "),
    option: (color) => ({
      grid: { left: 110, right: 30, top: 10, bottom: 75 },
      tooltip: {
        formatter: ({ dataIndex }) =>
          tip(rows[bars[dataIndex].stage], [
            [bars[dataIndex].label, `${units.cycles(bars[dataIndex].end - bars[dataIndex].start)} cycles`],
            ["from", units.cycles(bars[dataIndex].start)],
          ]),
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
      yAxis: { type: "category", inverse: true, data: rows, axisTick: { show: false } },
      dataZoom: zoomX(),
      series: [
        {
          type: "custom",
          progressive: 0,
          encode: { x: [1, 2], y: 0 },
          data: bars.map((bar) => [bar.stage, bar.start, bar.end]),
          renderItem: drawBars(
            bars.map((bar) => ({ ...bar, row: bar.stage })),
            rows.length,
            { ...color, link: color.link },
          ),
          clip: true,
        },
      ],
    }),
    cursor: {
      count: () => bars.length,
      fraction: (index) => (bars[index].start + bars[index].end) / 2 / Math.max(1, cycles),
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) => line(bars[index]),
      move: (index, key) =>
        besides(
          bars.map((bar) => ({ ...bar, row: bar.stage })),
          index,
          key,
        ),
    },
    table: () =>
      dataTable({
        caption: "Time of the stages in a run, in cycles",
        columns: [
          { name: "stage" },
          { name: "works", unit: "cycles" },
          { name: "share", unit: "percent" },
          { name: "waits and sends", unit: "cycles" },
        ],
        rows: stages.map(({ stage }) => [
          rows[stage],
          busyOf(stage),
          busyOf(stage) / Math.max(1, cycles),
          cycles - busyOf(stage),
        ]),
      }),
  });
}

function stageChart(device) {
  const { stages } = device.figures;
  const kinds = [
    ["forward", (stage) => stage.forward_cycles, 0, "forward"],
    ["backward", (stage) => stage.backward_cycles - stage.recomputed_cycles, 1, "backward"],
    ["recomputed", (stage) => stage.recomputed_cycles, 3, "link"],
    ["update", (stage) => stage.update_cycles, 2, "update"],
  ].filter(([, of], index) => index < 2 || stages.some(of));
  return new ChartPanel({
    title: "Cycles of the stages: one micro-batch, and the update",
    height: 140 + 36 * stages.length,
    describe: () =>
      stages
        .map(
          (stage) =>
            `stage ${stage.stage}: ${kinds.map(([name, of]) => `${name} ${units.cycles(of(stage))}`).join(", ")}`,
        )
        .join("; "),
    option: (color) => ({
      grid: { left: 10, right: 30, top: 40, bottom: 30, containLabel: true },
      legend: { top: 0, icon: "roundRect" },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: ([{ dataIndex }]) =>
          tip(
            `stage ${dataIndex}`,
            kinds.map(([name, of, , tone]) => [name, units.cycles(of(stages[dataIndex])), color[tone]]),
          ),
      },
      xAxis: { type: "value", axisLabel: { formatter: shortCycles } },
      yAxis: {
        type: "category",
        inverse: true,
        data: stages.map(({ stage, ipu }) => `stage ${stage}, IPU ${ipu}`),
      },
      series: kinds.map(([name, of, pattern, tone]) => ({
        name,
        type: "bar",
        stack: "cycles",
        itemStyle: fill(color[tone], pattern),
        data: stages.map(of),
      })),
    }),
    cursor: {
      count: () => stages.length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) =>
        `stage ${index}: ${kinds.map(([name, of]) => `${name} ${units.cycles(of(stages[index]))}`).join(", ")}`,
    },
    table: () =>
      dataTable({
        caption: "Stages",
        columns: [
          { name: "stage" },
          ...["forward", "backward", "recomputed", "update", "FIFO bytes", "FIFO depth"].map((name) => ({
            name,
            unit: "cycles",
          })),
        ],
        rows: stages.map((stage) => [
          `stage ${stage.stage}, IPU ${stage.ipu}`,
          stage.forward_cycles,
          stage.backward_cycles,
          stage.recomputed_cycles,
          stage.update_cycles,
          stage.fifo_bytes,
          stage.fifo_depth,
        ]),
      }),
  });
}

function ipuMemoryChart(device) {
  const { ipus } = device;
  const categories = CATEGORIES.filter((name) =>
    ipus.some((ipu) => ipu.categories.some(({ category }) => category === name)),
  );
  const mean = (ipu, name) => {
    const found = ipu.categories.find(({ category }) => category === name);
    return found ? sum([...found.bytes]) / device.tiles : 0;
  };
  return new ChartPanel({
    title: "Memory of each IPU: the mean tile by category, KiB",
    height: 170 + 36 * ipus.length,
    describe: () =>
      ipus
        .map(
          (ipu) =>
            `${ipu.label}: mean ${kib(ipu.meanBytes)}, fullest tile ${kib(ipu.maxBytes)} KiB, ${ipu.verdict}`,
        )
        .join("; "),
    option: (color) => ({
      grid: { left: 10, right: 40, top: 40, bottom: 40, containLabel: true },
      legend: { type: "scroll", top: 0, icon: "roundRect" },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: ([{ dataIndex }]) =>
          tip(`${ipus[dataIndex].label}: ${ipus[dataIndex].verdict}`, [
            ...categories.map((name) => [
              words(name),
              `${kib(mean(ipus[dataIndex], name))} KiB`,
              categoryFill(name, color).color,
            ]),
            ["fullest tile", `${kib(ipus[dataIndex].maxBytes)} KiB`],
          ]),
      },
      xAxis: { type: "value" },
      yAxis: { type: "category", inverse: true, data: ipus.map((ipu) => `IPU ${ipu.ipu}`) },
      series: categories.map((name) => ({
        name: words(name),
        type: "bar",
        stack: "memory",
        itemStyle: categoryFill(name, color),
        data: ipus.map((ipu) => mean(ipu, name) / 1024),
      })),
    }),
    cursor: {
      count: () => ipus.length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) =>
        `${ipus[index].label}: mean ${kib(ipus[index].meanBytes)} KiB, fullest tile ${kib(ipus[index].maxBytes)} KiB`,
    },
    table: () =>
      dataTable({
        caption: "Memory of each IPU, KiB a tile",
        columns: [
          { name: "IPU" },
          { name: "max", unit: "KiB" },
          { name: "mean", unit: "KiB" },
          ...categories.map((name) => ({ name: `${words(name)}, mean`, unit: "KiB" })),
          { name: "verdict" },
        ],
        rows: ipus.map((ipu) => [
          ipu.label,
          ipu.maxBytes,
          ipu.meanBytes,
          ...categories.map((name) => mean(ipu, name)),
          ipu.verdict,
        ]),
      }),
  });
}
