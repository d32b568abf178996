// Liveness: bytes over the steps of a program, and what is live at a step.

function livenessView(program) {
  const { device } = program;
  const state = { ipu: device.ipus.reduce((best, ipu) => (ipu.maxBytes > best.maxBytes ? ipu : best)) };
  const detail = h("div", { "aria-live": "polite" });
  const open = (step) => detail.replaceChildren(stepCard(state.ipu, step));
  const chart = livenessChart(state, open);
  const choose = (index) => {
    state.ipu = device.ipus[index];
    chart.index = null;
    chart.update();
    open(state.ipu.peakStep);
  };
  open(state.ipu.peakStep);
  const controls =
    device.ipus.length > 1
      ? h(
          "div",
          { class: "controls" },
          select(
            "IPU",
            device.ipus.map((ipu, index) => [index, ipu.label]),
            device.ipus.indexOf(state.ipu),
            choose,
          ),
        )
      : null;
  return [controls, ...tensorCaveats(device), chart.element, detail].filter(Boolean);
}

function stepName(ipu, step) {
  const { stage } = ipu;
  return step < stage.count
    ? `step ${step}: ${stage.name(step)}, ${layerName(stage.layer(step))}`
    : "no step";
}

function livenessChart(state, open) {
  return new ChartPanel({
    title: "Live bytes over the steps of the program",
    height: 460,
    describe: () => {
      const { ipu } = state;
      return `${ipu.label}: ${ipu.liveBytes.length} steps; always live ${count(ipu.alwaysBytes, "B")}; fullest at ${stepName(ipu, ipu.peakStep)}, with ${count(ipu.liveBytes[ipu.peakStep] ?? 0, "B")} on all tiles`;
    },
    option: (color) => livenessOption(state.ipu, color),
    activate: open,
    at: (point, instance) => {
      if (![0, 1].some((gridIndex) => instance.containPixel({ gridIndex }, point))) return null;
      const step = Math.round(instance.convertFromPixel({ xAxisIndex: 0 }, point[0]));
      return step >= 0 && step < state.ipu.liveBytes.length ? step : null;
    },
    cursor: {
      count: () => state.ipu.liveBytes.length,
      start: () => state.ipu.peakStep,
      fraction: (step) => step / Math.max(1, state.ipu.liveBytes.length - 1),
      target: (step) => ({ seriesIndex: 0, dataIndex: step }),
      describe: (step) =>
        `${stepName(state.ipu, step)}: ${count(state.ipu.liveBytes[step], "B")} live, fullest tile ${kib(state.ipu.maxTileBytes[step])} KiB`,
    },
  });
}

function livenessOption(ipu, color) {
  const steps = ipu.liveBytes.map((_, step) => step);
  const always = ipu.alwaysBytes / 2 ** 20;
  const mark = (text, at, more = {}) => ({
    silent: true,
    symbol: "none",
    lineStyle: { color: color.limit, type: "dashed", width: 2 },
    label: { color: color.limit, formatter: text, position: "insideEndTop", ...more },
    data: [at],
  });
  const shared = { type: "line", symbol: "none", step: "middle" };
  const tops = [...ipu.maxTileBytes, ipu.limit].reduce((best, value) => Math.max(best, value), 0);
  return {
    grid: [
      { left: 80, right: 30, top: 50, height: 200 },
      { left: 80, right: 30, top: 290, height: 95 },
    ],
    legend: { top: 0, icon: "roundRect" },
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: {
      trigger: "axis",
      formatter: ([{ dataIndex: step }]) =>
        tip(stepName(ipu, step), [
          ["always live", count(ipu.alwaysBytes, "B"), color.palette[0]],
          ["not always live", count(ipu.liveBytes[step] - ipu.alwaysBytes, "B"), color.palette[1]],
          ["all", count(ipu.liveBytes[step], "B")],
          ["fullest tile", `${kib(ipu.maxTileBytes[step])} of ${kib(ipu.limit)} KiB`, color.palette[3]],
        ]),
    },
    xAxis: [
      { type: "category", data: steps, gridIndex: 0, axisLabel: { show: false }, boundaryGap: false },
      {
        type: "category",
        data: steps,
        gridIndex: 1,
        boundaryGap: false,
        name: "step",
        nameLocation: "middle",
        nameGap: 24,
      },
    ],
    yAxis: [
      { type: "value", gridIndex: 0, name: "MiB, all tiles" },
      {
        type: "value",
        gridIndex: 1,
        name: "KiB, fullest tile",
        max: (1.05 * tops) / 1024,
        splitNumber: 3,
        axisLabel: { formatter: (value) => whole.format(value) },
      },
    ],
    dataZoom: zoomX({ xAxisIndex: [0, 1] }),
    series: [
      {
        ...shared,
        name: "always live",
        stack: "live",
        areaStyle: { opacity: 0.9 },
        data: steps.map(() => always),
        markLine: mark(`peak at step ${ipu.peakStep}`, { xAxis: String(ipu.peakStep) }, { position: "end" }),
      },
      {
        ...shared,
        name: "not always live",
        stack: "live",
        areaStyle: { opacity: 0.55 },
        data: ipu.liveBytes.map((bytes) => (bytes - ipu.alwaysBytes) / 2 ** 20),
      },
      {
        ...shared,
        name: "fullest tile",
        xAxisIndex: 1,
        yAxisIndex: 1,
        color: color.palette[3],
        lineStyle: { type: "solid", width: 2 },
        data: ipu.maxTileBytes.map((bytes) => bytes / 1024),
        markLine: mark(`limit ${kib(ipu.limit)} KiB`, { yAxis: ipu.limit / 1024 }),
      },
    ],
  };
}

/** Returns what is live at a step, by layer. */
function stepCard(ipu, step) {
  const { stage } = ipu;
  const layers = new Map();
  for (let index = 0; index < stage.tensors.name.length; index += 1) {
    if (!stage.isLive(index, step)) continue;
    const layer = stage.text(stage.tensors.layer[index]);
    if (!layers.has(layer)) layers.set(layer, [layerName(layer), 0, 0, 0]);
    const row = layers.get(layer);
    row[stage.tensors.alwaysLive[index] ? 1 : 2] += stage.heldBytes(index);
  }
  const rows = [...layers.values()];
  const ofTensors = sum(rows.map((row) => row[1]));
  if (ipu.alwaysBytes > ofTensors)
    rows.push([
      ipu.stages.length > 1 ? "(code, stack, other stages)" : "(code, stack)",
      ipu.alwaysBytes - ofTensors,
      0,
      0,
    ]);
  for (const row of rows) row[3] = row[1] + row[2];
  rows.sort((a, b) => b[3] - a[3]);
  const columns = ["always live", "not always live", "all"].map((name) => ({
    name: `${name}, KiB`,
    unit: "KiB",
  }));
  return dataTable({
    caption: `Live at ${stepName(ipu, step)}`,
    columns: [{ name: ipu.device.words.owner }, ...columns],
    rows,
    total: ["all", ...[1, 2, 3].map((column) => sum(rows.map((row) => row[column])))],
    search: `Search ${ipu.device.words.owner}s`,
  });
}
