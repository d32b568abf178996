// Operations: cycles, arithmetic, traffic and plans, by layer or by step.

function operationsView(program) {
  const { device } = program;
  const place = h("div");
  const show = (by) => place.replaceChildren(by === "layer" ? layerTable(device) : stepTable(device));
  show("layer");
  return [
    h(
      "div",
      { class: "controls" },
      select(
        "Rows",
        [
          ["layer", "layers"],
          ["step", "operations"],
        ],
        "layer",
        show,
      ),
    ),
    place,
  ];
}

const FIGURE_COLUMNS = [
  ...PHASES.map((phase) => ({ name: phase, unit: "cycles" })),
  { name: "all cycles", unit: "cycles" },
  { name: "share", unit: "percent" },
  { name: "FLOPs", unit: "count" },
  { name: "of peak", unit: "percent" },
  { name: "exchanged", unit: "bytes" },
];

function figureCells(entry, all) {
  const cycles = sum(entry.cycles);
  return [
    ...entry.cycles,
    cycles,
    cycles / Math.max(1, all),
    entry.flops,
    cycles ? entry.peak / cycles : null,
    entry.bytes,
  ];
}

/** Returns the cells of the sums of all entries. */
function totalCells(entries) {
  const added = (column) => sum(entries.map((entry) => entry[column]));
  const cycles = PHASES.map((_, phase) => sum(entries.map((entry) => entry.cycles[phase])));
  return figureCells(
    { cycles, flops: added("flops"), peak: added("peak"), bytes: added("bytes") },
    sum(cycles),
  );
}

function layerTable(device) {
  const layers = device.layers();
  const all = sum(layers.map(({ cycles }) => sum(cycles)));
  return dataTable({
    caption: "Cycles of a run by layer",
    columns: [{ name: "layer" }, ...FIGURE_COLUMNS, { name: "plans" }],
    rows: layers.map((entry) => [
      layerName(entry.layer),
      ...figureCells(entry, all),
      [...entry.plans].join("; ") || null,
    ]),
    total: ["all", ...totalCells(layers), null],
    sorted: 4,
    search: "Search layers",
  });
}

function stepTable(device) {
  const entries = device.stages.flatMap((stage) =>
    Array.from({ length: stage.count }, (_, step) => {
      const entry = { cycles: [0, 0, 0], flops: 0, peak: 0, bytes: 0, plans: new Set() };
      addStep(entry, stage, step, device.times);
      return { ...entry, stage, step };
    }),
  );
  const all = sum(entries.map(({ cycles }) => sum(cycles)));
  return dataTable({
    caption: "Cycles of a run by operation",
    columns: [{ name: "operation" }, { name: "layer" }, ...FIGURE_COLUMNS, { name: "plan" }],
    rows: entries.map((entry) => [
      entry.stage.name(entry.step),
      layerName(entry.stage.layer(entry.step)),
      ...figureCells(entry, all),
      [...entry.plans][0] ?? null,
    ]),
    total: ["all", "", ...totalCells(entries), null],
    sorted: 5,
    search: "Search layers and operations",
  });
}
