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
          ["layer", `${device.words.place}s`],
          ["step", "operations"],
        ],
        "layer",
        show,
      ),
    ),
    place,
  ];
}

const figureColumns = ({ phases }) => [
  ...phases.map((phase) => ({ name: phase, unit: "cycles" })),
  { name: "all cycles", unit: "cycles" },
  { name: "share", unit: "percent" },
  { name: "FLOPs", unit: "count" },
  { name: "of peak", unit: "percent" },
  { name: "exchanged", unit: "bytes" },
];

function figureCells(entry, all, { phases }) {
  const cycles = sum(entry.cycles);
  return [
    ...entry.cycles.slice(0, phases.length),
    cycles,
    cycles / Math.max(1, all),
    entry.flops,
    cycles ? entry.peak / cycles : null,
    entry.bytes,
  ];
}

/** Returns the cells of the sums of all entries. */
function totalCells(entries, device) {
  const added = (column) => sum(entries.map((entry) => entry[column]));
  const cycles = PHASES.map((_, phase) => sum(entries.map((entry) => entry.cycles[phase])));
  return figureCells(
    { cycles, flops: added("flops"), peak: added("peak"), bytes: added("bytes") },
    sum(cycles),
    device,
  );
}

function layerTable(device) {
  const layers = device.layers();
  const all = sum(layers.map(({ cycles }) => sum(cycles)));
  return dataTable({
    caption: `Cycles of a run by ${device.words.place}`,
    columns: [{ name: device.words.place }, ...figureColumns(device), { name: "plans" }],
    rows: layers.map((entry) => [
      layerName(entry.layer),
      ...figureCells(entry, all, device),
      [...entry.plans].join("; ") || null,
    ]),
    total: ["all", ...totalCells(layers, device), null],
    sorted: 1 + device.phases.length,
    search: `Search ${device.words.place}s`,
  });
}

function stepTable(device) {
  const entries = (device.inStep ? device.stages.slice(0, 1) : device.stages).flatMap((stage) =>
    Array.from({ length: stage.count }, (_, step) => {
      const entry = { cycles: [0, 0, 0], flops: 0, peak: 0, bytes: 0, plans: new Set() };
      addStep(entry, stage, step, device.times);
      return { ...entry, stage, step };
    }),
  );
  const all = sum(entries.map(({ cycles }) => sum(cycles)));
  return dataTable({
    caption: "Cycles of a run by operation",
    columns: [
      { name: "operation" },
      { name: device.words.place },
      ...figureColumns(device),
      { name: "plan" },
    ],
    rows: entries.map((entry) => [
      entry.stage.name(entry.step),
      layerName(entry.stage.layer(entry.step)),
      ...figureCells(entry, all, device),
      [...entry.plans][0] ?? null,
    ]),
    total: ["all", "", ...totalCells(entries, device), null],
    sorted: 2 + device.phases.length,
    search: `Search ${device.words.place}s and operations`,
  });
}
