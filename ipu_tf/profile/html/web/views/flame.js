// The bars of the flame chart: phases, layers, steps, supersteps, and a lane for each kind of time.

const LANES = ["compute", "exchange", "sync", "host", "link"];
const LAYER_ROWS = 4;

/**
 * Returns the rows and bars of an IPU: one micro-batch of each of its stages, and its update.
 *
 * A bar has `row`, `start`, `end` (cycles), `label`, `phase` or `kind`, and `stage` and `step` if
 * it belongs to a step.
 */
function flame(ipu) {
  const depth = Math.min(
    LAYER_ROWS,
    Math.max(
      1,
      ...ipu.stagesThere.flatMap((stage) =>
        Array.from({ length: stage.count }, (_, step) => parts(stage, step).length),
      ),
    ),
  );
  const rows = [
    ipu.device.phases.length ? "phase" : "run",
    ...Array.from({ length: depth }, (_, level) => (level ? "" : ipu.device.words.place)),
    "step",
    "superstep",
    ...LANES,
  ];
  const builder = new FlameBuilder(rows, depth);
  for (const stage of ipu.stagesThere) {
    for (let step = 0; step < stage.count; step += 1) builder.addStep(stage, step);
    builder.close();
    for (const [label, kind, cycles] of extras(stage)) builder.addExtra(label, kind, cycles);
  }
  for (const [label, cycles] of linkTimes(ipu.device)) builder.addExtra(label, "link", cycles);
  const bars = builder.bars.sort((a, b) => a.row - b.row || a.start - b.start);
  return { rows, bars, cycles: builder.now };
}

/** Returns the names of a layer's path; deeper levels than the chart has rows stay together. */
function parts(stage, step) {
  const names = layerName(stage.layer(step)).split("/");
  return names.length <= LAYER_ROWS
    ? names
    : [...names.slice(0, LAYER_ROWS - 1), names.slice(LAYER_ROWS - 1).join("/")];
}

/** Returns the time of a stage besides its steps: name, kind and cycles. */
function extras(stage) {
  const { recomputed, streamed, gathered, waiting } = stage.plain;
  return [
    ["forward pass again (recomputation)", "compute", recomputed],
    ...PHASES.map((phase) => [`streaming memory, ${phase}`, "host", streamed[phase]]),
    ...PHASES.map((phase) => [`gathering of weights, ${phase}`, "link", gathered[phase]]),
    ...PHASES.map((phase) => [`wait for transfers, ${phase}`, "host", waiting[phase]]),
  ];
}

/** Returns the time in which IPUs send to each other: of a mean micro-batch, and of the update. */
function linkTimes({ figures }) {
  const slowest = Math.max(...updatesOfIpus(figures.stages).values());
  return [
    [
      "links between stages (mean of the micro-batches)",
      Math.round(figures.link_cycles / figures.micro_batches),
    ],
    ["all-reduce", figures.all_reduce_cycles],
    ["links between stages in the update", figures.update_cycles - slowest],
  ];
}

/** Returns the cycles in which each IPU updates the weights of its stages. */
function updatesOfIpus(stages) {
  const found = new Map();
  for (const { ipu, update_cycles: cycles } of stages) found.set(ipu, (found.get(ipu) ?? 0) + cycles);
  return found;
}

class FlameBuilder {
  constructor(rows, depth) {
    this.bars = [];
    this.now = 0;
    this.depth = depth;
    this.lane = Object.fromEntries(LANES.map((kind) => [kind, rows.indexOf(kind)]));
    this.stepRow = depth + 1;
    this.open = [];
  }

  /** Extends the open bars of phase and layers, or closes them and opens others. */
  #nest(labels, end, phase) {
    let same = 0;
    while (same < labels.length && this.open[same]?.label === labels[same]) same += 1;
    this.open.length = Math.min(this.open.length, same);
    for (let level = same; level < labels.length; level += 1) {
      const bar = { row: level, start: this.now, end, label: labels[level], phase };
      this.bars.push(bar);
      this.open.push(bar);
    }
    for (const bar of this.open) bar.end = end;
  }

  addStep(stage, step) {
    const phase = stage.phase(step);
    const repeats = stage.steps.repeats[step];
    const end = this.now + stage.cycles[step];
    if (end === this.now) return;
    this.#nest([stage.device.phases.length ? phase : "all programs", ...parts(stage, step)], end, phase);
    this.bars.push({ row: this.stepRow, start: this.now, end, label: stage.name(step), phase, stage, step });
    let at = this.now;
    for (const index of stage.supersteps_of(step)) {
      const begin = at;
      for (const kind of ["sync", "exchange", "compute", "host"]) {
        const cycles = repeats * stage.supersteps[kind][index];
        if (!cycles) continue;
        this.bars.push({ row: this.lane[kind], start: at, end: at + cycles, label: kind, kind, stage, step });
        at += cycles;
      }
      const times = repeats > 1 ? `${whole.format(repeats)} x ` : "";
      if (at > begin)
        this.bars.push({
          row: this.stepRow + 1,
          start: begin,
          end: at,
          label: times + stage.text(stage.supersteps.name[index]),
          phase,
          stage,
          step,
        });
    }
    this.now = end;
  }

  addExtra(label, kind, cycles) {
    if (!cycles) return;
    const bar = { start: this.now, end: this.now + cycles, label, kind };
    this.bars.push({ ...bar, row: this.stepRow }, { ...bar, row: this.lane[kind] });
    this.now += cycles;
  }

  close() {
    this.open = [];
  }
}

/** Returns the colour of the text on a bar: phases are pale in light colours and deep in dark ones. */
function onBar({ kind, phase }) {
  const deep = phase && phase !== "link" && !kind ? isDark() : !isDark();
  return deep ? "#ffffff" : "#10151b";
}

/**
 * Returns how a bar is drawn; bars that would lie on one another are drawn once. `tone(bar)` is a
 * colour of the palette for bars without a kind or a phase; `opacity(bar, time)` that of a bar which
 * stands for the others in some time.
 */
function drawBars(bars, rowCount, color, tone = null, opacity = () => 1) {
  const fills = {
    ...Object.fromEntries(LANES.map((kind) => [kind, color[kind]])),
    ...Object.fromEntries(PHASES.map((phase) => [phase, color[phase]])),
  };
  return (params, api) => {
    const bar = bars[params.dataIndex];
    const area = params.coordSys;
    const context = params.context;
    if (!context.drawn || context.width !== area.width || params.dataIndexInside === 0)
      Object.assign(context, { drawn: [], width: area.width });
    const [from, top] = api.coord([bar.start, bar.row]);
    const [to] = api.coord([bar.end, bar.row]);
    if (to < area.x || from > area.x + area.width) return undefined;
    const left = Math.max(from, area.x);
    const width = Math.max(0.7, Math.min(to, area.x + area.width) - left);
    if ((context.drawn[bar.row] ?? -1) > left + width - 0.5) return undefined;
    context.drawn[bar.row] = left + width;
    const height = (0.92 * area.height) / rowCount;
    return {
      type: "rect",
      shape: { x: left, y: top - height / 2, width, height },
      style: {
        fill: tone?.(bar) ?? fills[bar.kind ?? bar.phase],
        opacity: width > to - from ? opacity(bar, width / (api.coord([bar.start + 1, bar.row])[0] - from)) : 1,
        stroke: color.back,
        lineWidth: width > 4 ? 1 : 0,
      },
      emphasis: { style: { stroke: color.text, lineWidth: 2 } },
      textContent:
        width > 34
          ? {
              style: {
                text: bar.label,
                fill: onBar(bar),
                fontSize: 11,
                width: width - 8,
                overflow: "truncate",
                ellipsis: "…",
              },
            }
          : undefined,
      textConfig: { position: "inside" },
    };
  };
}
