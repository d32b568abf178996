// Summary: the machine, the time, the memory, and what to change.

function summaryView(program, context) {
  const { device } = program;
  const { figures } = device;
  const parts = [
    h(
      "div",
      { class: "card" },
      h("p", { class: "limit" }, program.verdict),
      facts(machineFacts(device)),
      verdicts(device),
    ),
    ...caveats(program.nonfinite.map(({ title }) => `Numerics: ${title}.`)),
    ...caveats(
      device.ipus.flatMap((ipu) => (ipu.advice.length ? [`To make room: ${ipu.advice.join("; ")}.`] : [])),
    ),
    ...caveats(
      Object.entries(device.unsupported).map(
        ([opcode, layers]) => `Incomplete: '${opcode}' has no cost, in ${layers.map(layerName).join(", ")}.`,
      ),
    ),
    ...caveats([...device.notes, ...context.notes]),
  ];
  if (program.insightsSought || program.insights.length) parts.push(insightCard(program));
  const { element: kinds } = kindChart(device);
  const { element: layers } = layerChart(device);
  parts.push(h("div", { class: "columns" }, kinds, layers));
  if (program.nativeOps.length) parts.push(nativeTable(program.nativeOps));
  if (!figures.cycles) parts.unshift(...caveats(["The program has no steps on the machine."]));
  return parts;
}

/** Returns the changes that would gain most, as planned again with each. */
function insightCard({ insights, insightsNote }) {
  const hint = insights.length
    ? "Each change was planned again, one by one; they do not add up."
    : "No change that was planned again gains half a percent.";
  return h(
    "div",
    { class: "card" },
    h("h3", {}, "What would gain most"),
    insights.length ? insightList(insights) : null,
    h("p", { class: "hint" }, hint),
    insightsNote ? h("p", { class: "hint" }, `Not planned: ${insightsNote}.`) : null,
  );
}

function insightList(insights) {
  return h(
    "ol",
    { class: "insights" },
    insights.map((insight) =>
      h(
        "li",
        {},
        h(
          "strong",
          {},
          insight.makes_fit ? "makes it fit: " : `${units.ratio(insight.speedup)} times as fast: `,
        ),
        insight.advice,
        h(
          "span",
          { class: "more" },
          [
            insight.samples_per_second === null
              ? microBatch(insight.micro_batch_seconds)
              : `${one.format(insight.samples_per_second)} samples/s`,
            `${units.cycles(insight.cycles)} cycles a run`,
            `fullest tile ${kib(insight.max_tile_bytes)} KiB`,
          ]
            .filter(Boolean)
            .join(", "),
        ),
      ),
    ),
  );
}

function machineFacts(device) {
  const { figures } = device;
  const update =
    device.stages.some((stage) => stage.plain.update) &&
    (figures.micro_batches * figures.replicas > 1 || device.isPipeline);
  const run = update ? "a weight update" : `a ${device.words.run}`;
  const factors = [figures.samples_per_run, figures.micro_batches, figures.replicas];
  const ipus = figures.replicas * device.ipus.length;
  return [
    [
      "Chip",
      figures.chip,
      `${whole.format(device.tiles)} tiles at ${device.clockHz / 1e9} GHz, ${kib(device.tileBytes)} KiB each`,
    ],
    [
      "System",
      figures.system || "–",
      `${ipus} IPU${ipus > 1 ? "s" : ""} in use, ${figures.replicas} replica${figures.replicas > 1 ? "s" : ""}`,
    ],
    ...callFacts(figures, run),
    [
      "On the device",
      `${units.cycles(figures.cycles)} cycles ${run}, ${duration(figures.seconds)}${figures.samples_per_second === null ? "" : `, ${one.format(figures.samples_per_second)} samples/s`}`,
      figures.samples_per_update
        ? `${whole.format(figures.samples_per_update)} samples ${run}${figures.samples_per_update === figures.samples_per_run ? "" : ` (${factors.join(" x ")})`}`
        : device.phases.length
          ? "the number of samples is not known"
          : null,
    ],
    [
      "Arithmetic",
      device.phases.length ? percent(figures.flop_utilisation) + " of the peak" : null,
      `${count(figures.flops, "FLOP")} ${run}`,
    ],
    ["Tile balance", percent(figures.tile_balance), "of the tiles are busy while any computes"],
    ...energyFact(figures),
    device.isPipeline
      ? [
          "Pipeline",
          `${device.stages.length} stages, ${figures.schedule}`,
          `bubble ${percent(figures.bubble_share)}, ${figures.micro_batches} micro-batches${figures.recompute ? ", activations recomputed" : ""}`,
        ]
      : [
          "Micro-batches",
          figures.micro_batches > 1 ? `${whole.format(figures.micro_batches)} an update` : null,
        ],
    figures.streaming_bytes ? ["Streaming memory", count(figures.streaming_bytes, "B"), null] : ["", null],
  ];
}

function microBatch(seconds) {
  return `${one.format(1e6 * seconds)} us a micro-batch`;
}

/** Returns the time of a run with its share of the call from the host, none where it is not known. */
function callFacts({ runs_per_call: runs, call_seconds, called_samples_per_second: rate, micro_batches }, run) {
  if (typeof runs !== "number") return [];
  const each = call_seconds / runs;
  const work = rate === null ? microBatch(each / micro_batches) : `${one.format(rate)} samples/s`;
  const call = runs > 1 ? `${whole.format(runs)} in ${duration(call_seconds)}` : "one";
  return [["Time", `${duration(each)} ${run}, ${work}`, `a call from the host runs ${call}`]];
}

/** Returns the bound of the energy, none where it is not known. */
function energyFact({ joules, joules_per_sample: each }) {
  if (typeof joules !== "number") return [];
  const amount = each === null ? `${units.joules(joules)} a run` : `${units.joules(each)} a sample`;
  return [["Energy", `at most ${amount}`, "for arithmetic; exchange, links, idle chips excluded"]];
}

function verdicts(device) {
  const lines = device.ipus.map((ipu) => {
    const good = ipu.maxBytes <= ipu.limit;
    return h(
      "p",
      {},
      `${ipu.label}: `,
      h("span", { class: `verdict ${good ? "good" : "bad"}` }, ipu.verdict),
      `, fullest tile ${kib(ipu.maxBytes)} KiB (tile ${ipu.fullest}), mean ${kib(ipu.meanBytes)} KiB of ${kib(ipu.limit)} KiB`,
    );
  });
  if (!device.figures.fits && device.ipus.every((ipu) => ipu.maxBytes <= ipu.limit)) {
    lines.push(h("p", { class: "verdict bad" }, "Out of streaming memory"));
  }
  return h("div", { class: "verdicts" }, lines);
}

function kindChart(device) {
  const cycles = device.figures.cycles_by_kind;
  const all = Math.max(1, sum(Object.values(cycles)));
  const kinds = KINDS.map((kind) => [kind, cycles[kind]]);
  const chart = new ChartPanel({
    title: device.isPipeline ? "Cycles of all stages by kind" : "Cycles by kind",
    height: 250,
    describe: () => kinds.map(([kind, value]) => `${kind} ${percent(value / all)}`).join(", "),
    option: (color) => ({
      grid: { left: 10, right: 70, top: 10, bottom: 30, containLabel: true },
      tooltip: {
        formatter: ({ dataIndex }) =>
          tip(kinds[dataIndex][0], [
            ["cycles", units.cycles(kinds[dataIndex][1])],
            ["share", percent(kinds[dataIndex][1] / all)],
          ]),
      },
      xAxis: { type: "value", axisLabel: { formatter: shortCycles } },
      yAxis: { type: "category", inverse: true, data: kinds.map(([kind]) => kind) },
      series: [
        {
          type: "bar",
          data: kinds.map(([kind, value]) => ({ value, itemStyle: kindFill(kind, color) })),
          label: {
            show: true,
            position: "right",
            color: color.text,
            formatter: ({ value }) => percent(value / all),
          },
        },
      ],
    }),
    cursor: {
      count: () => kinds.length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) =>
        `${kinds[index][0]}: ${units.cycles(kinds[index][1])} cycles, ${percent(kinds[index][1] / all)}`,
    },
    table: () =>
      dataTable({
        caption: "Cycles of a run by kind",
        columns: [{ name: "kind" }, { name: "cycles", unit: "cycles" }, { name: "share", unit: "percent" }],
        rows: kinds.map(([kind, value]) => [kind, value, value / all]),
        total: ["all", sum(Object.values(cycles)), null],
      }),
  });
  return chart;
}

function layerChart(device) {
  const layers = device.layers();
  const shown = layers.slice(0, 10);
  const all = Math.max(1, sum(layers.map(({ cycles }) => sum(cycles))));
  const line = (entry) =>
    `${layerName(entry.layer)}: ${units.cycles(sum(entry.cycles))} cycles, ${percent(sum(entry.cycles) / all)}`;
  return new ChartPanel({
    title: `Cycles by ${device.words.place} (${shown.length} of ${layers.length})`,
    height: Math.max(200, 60 + 30 * shown.length),
    describe: () => shown.slice(0, 3).map(line).join("; "),
    option: (color) => ({
      grid: { left: 10, right: 60, top: 34, bottom: 10, containLabel: true },
      legend: device.phases.length
        ? { top: 0, data: PHASES.map((phase) => ({ name: phase, itemStyle: phaseFill(phase, color) })) }
        : { show: false },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: ([{ dataIndex }]) =>
          tip(layerName(shown[dataIndex].layer), [
            ...device.phases.map((phase, index) => [
              phase,
              units.cycles(shown[dataIndex].cycles[index]),
              color[phase],
            ]),
            ["all", units.cycles(sum(shown[dataIndex].cycles))],
            ["share", percent(sum(shown[dataIndex].cycles) / all)],
          ]),
      },
      xAxis: { type: "value", axisLabel: { formatter: shortCycles } },
      yAxis: { type: "category", inverse: true, data: shown.map(({ layer }) => cut(layerName(layer), 34)) },
      series: PHASES.map((phase, index) => ({
        name: phase,
        type: "bar",
        stack: "phases",
        itemStyle: phaseFill(phase, color),
        data: shown.map(({ cycles }) => cycles[index]),
        label:
          index === 2
            ? {
                show: true,
                position: "right",
                color: color.text,
                formatter: ({ dataIndex }) => percent(sum(shown[dataIndex].cycles) / all),
              }
            : undefined,
      })),
    }),
    cursor: {
      count: () => shown.length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) => line(shown[index]),
    },
  });
}

function nativeTable(ops) {
  return dataTable({
    caption: "Contractions that do not run tile by tile",
    columns: [{ name: "layer" }, { name: "operation" }, { name: "reason" }],
    rows: ops.map(([layer, type, reason]) => [layerName(layer), type, reason]),
  });
}
