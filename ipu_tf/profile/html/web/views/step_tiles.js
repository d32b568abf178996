// The tiles in a step: who computes, who exchanges, who waits.

/** Returns the tiles of a step, superstep by superstep; a note where they are not known. */
function stepTiles(stage, step) {
  if (!stage.hasTiles)
    return caveats(["This file has no figures of single tiles: write the report once more."]);
  const supersteps = stage.supersteps_of(step);
  if (!supersteps.length) return [];
  const length = (index) => sum(KINDS.map((kind) => stage.supersteps[kind][index]));
  const longest = supersteps.reduce((best, index) => (length(index) > length(best) ? index : best));
  const state = { index: longest };
  const chart = stepTilesChart(stage, step, state);
  const choices = supersteps.map((index, number) => [
    index,
    `${number + 1}. ${stage.text(stage.supersteps.name[index])}, ${units.cycles(length(index))} cycles`,
  ]);
  const choose = (index) => {
    state.index = Number(index);
    chart.update();
  };
  return [h("div", { class: "controls" }, select("Superstep", choices, longest, choose)), chart.element];
}

/** Returns how every tile spends a superstep: lists of cycles by kind, which add up to its length. */
function tileTimes(stage, index) {
  const { supersteps, device } = stage;
  const [compute, wait, received, sent] = ["compute", "wait", "received", "sent"].map((figure) =>
    stage.ofTiles(index, figure),
  );
  const constant = (kind) => new Float64Array(device.tiles).fill(supersteps[kind][index]);
  const exchange = constant("exchange").map((cycles, tile) => (received[tile] || sent[tile] ? cycles : 0));
  return { compute, exchange, wait, sync: constant("sync"), host: constant("host"), received, sent };
}

function stepTilesChart(stage, step, state) {
  const kinds = ["compute", "exchange", "wait", "sync", "host"];
  const { tiles } = stage.device;
  const cache = { index: null };
  const times = () =>
    cache.index === state.index
      ? cache.times
      : ((cache.index = state.index), (cache.times = tileTimes(stage, state.index)));
  const shown = () => kinds.filter((kind) => times()[kind].some((cycles) => cycles));
  const working = () => times().compute.filter((cycles) => cycles > 0).length;
  return new ChartPanel({
    title: "The tiles in a superstep: who computes, who waits",
    height: 340,
    describe: () =>
      `${stage.text(stage.supersteps.name[state.index])}: ${whole.format(working())} of ${whole.format(tiles)} tiles compute; waits are ${percent(sum([...times().wait]) / Math.max(1, sum(kinds.map((kind) => sum([...times()[kind]])))))} of the tiles' time`,
    option: (color) => ({
      grid: { left: 80, right: 40, top: 44, bottom: 75 },
      legend: { top: 0, icon: "roundRect" },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "line" },
        formatter: ([{ dataIndex: tile }]) =>
          tip(`tile ${tile}`, [
            ...shown().map((kind) => [
              kind,
              `${units.cycles(times()[kind][tile])} cycles`,
              color[kind] ?? color.quiet,
            ]),
            ["receives", count(times().received[tile], "B")],
            ["sends", count(times().sent[tile], "B")],
          ]),
      },
      xAxis: {
        type: "category",
        name: "tile",
        nameLocation: "middle",
        nameGap: 24,
        boundaryGap: false,
        data: Array.from({ length: tiles }, (_, tile) => tile),
        axisTick: { show: false },
      },
      yAxis: { type: "value", name: "cycles", axisLabel: { formatter: shortCycles } },
      dataZoom: zoomX(),
      series: shown().map((kind) =>
        stackedSteps(kind, [...times()[kind]], kind === "wait" ? fill(color.line, 8) : kindFill(kind, color)),
      ),
    }),
    cursor: {
      count: () => tiles,
      fraction: (tile) => tile / Math.max(1, tiles - 1),
      target: (tile) => ({ seriesIndex: 0, dataIndex: tile }),
      describe: (tile) =>
        `tile ${tile}: ${shown()
          .map((kind) => `${kind} ${units.cycles(times()[kind][tile])}`)
          .join(", ")} cycles`,
    },
    table: () =>
      dataTable({
        caption: `Tiles in step ${step}, superstep ${stage.text(stage.supersteps.name[state.index])}, cycles of one repetition`,
        columns: [
          { name: "tile" },
          ...kinds.map((name) => ({ name, unit: "cycles" })),
          { name: "received", unit: "bytes" },
          { name: "sent", unit: "bytes" },
        ],
        rows: Array.from({ length: tiles }, (_, tile) => [
          `tile ${tile}`,
          ...kinds.map((kind) => times()[kind][tile]),
          times().received[tile],
          times().sent[tile],
        ]),
        total: ["all", ...[...kinds, "received", "sent"].map((kind) => sum([...times()[kind]]))],
      }),
  });
}
