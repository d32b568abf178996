// Memory: bytes of every tile by category, and the tensors on a tile.

function memoryView(program) {
  const { device } = program;
  const state = {
    ipu: device.ipus.reduce((best, ipu) => (ipu.maxBytes > best.maxBytes ? ipu : best)),
    withLimit: true,
  };
  const detail = h("div", { "aria-live": "polite" });
  const chart = memoryChart(state, (tile) => {
    detail.replaceChildren(tileCard(state.ipu, tile));
  });
  const choose = (index) => {
    state.ipu = device.ipus[index];
    chart.update();
    detail.replaceChildren(tileCard(state.ipu, state.ipu.fullest));
  };
  detail.append(tileCard(state.ipu, state.ipu.fullest));
  const field = h("input", {
    type: "number",
    min: "0",
    max: String(device.tiles - 1),
    value: String(state.ipu.fullest),
  });
  field.addEventListener("change", () => {
    const tile = Math.round(Number(field.value));
    if (tile >= 0 && tile < device.tiles) detail.replaceChildren(tileCard(state.ipu, tile));
  });
  const controls = h(
    "div",
    { class: "controls" },
    device.ipus.length > 1
      ? select(
          "IPU",
          device.ipus.map((ipu, index) => [index, `${ipu.label}: ${ipu.verdict}`]),
          device.ipus.indexOf(state.ipu),
          choose,
        )
      : null,
    select(
      "Scale",
      [
        ["limit", "up to the limit"],
        ["fullest", "up to the fullest tile"],
      ],
      "limit",
      (scale) => {
        state.withLimit = scale === "limit";
        chart.update();
      },
    ),
    h("label", { class: "choice" }, h("span", {}, "Tile"), field),
  );
  return [controls, ...tensorCaveats(device), chart.element, detail];
}

/** Returns a caveat about models that no longer exist. */
function tensorCaveats(device) {
  return device.ipus.every((ipu) => ipu.hasTensors)
    ? []
    : caveats([
        "The model no longer existed when this report was written: it has the bytes of every tile and step, but not the single tensors.",
      ]);
}

function memoryChart(state, open) {
  return new ChartPanel({
    title: "Tile memory at the peak, by category",
    height: 440,
    describe: () => {
      const { ipu } = state;
      return `${ipu.label}: tile ${ipu.fullest} is fullest with ${kib(ipu.maxBytes)} KiB, the mean tile has ${kib(ipu.meanBytes)} KiB of ${kib(ipu.limit)} KiB: ${ipu.verdict}`;
    },
    option: (color) => memoryOption(state, color),
    activate: open,
    at: (point, instance) => {
      if (!instance.containPixel("grid", point)) return null;
      const tile = Math.round(instance.convertFromPixel({ xAxisIndex: 0 }, point[0]));
      return tile >= 0 && tile < state.ipu.device.tiles ? tile : null;
    },
    cursor: {
      count: () => state.ipu.device.tiles,
      start: () => state.ipu.fullest,
      fraction: (tile) => tile / Math.max(1, state.ipu.device.tiles - 1),
      target: (tile) => ({ seriesIndex: 0, dataIndex: tile }),
      describe: (tile) => `tile ${tile}: ${kib(state.ipu.tileBytes[tile])} KiB`,
    },
    table: () => categoryTable(state.ipu),
  });
}

function memoryOption({ ipu, withLimit }, color) {
  const { categories, device } = ipu;
  const top = Math.max(ipu.limit, ipu.maxBytes);
  return {
    grid: { left: 70, right: 90, top: 56, bottom: 70 },
    legend: { type: "scroll", top: 0, icon: "roundRect" },
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "line" },
      formatter: ([{ dataIndex: tile }]) =>
        tip(`tile ${tile}: ${kib(ipu.tileBytes[tile])} of ${kib(ipu.limit)} KiB`, [
          ...categories
            .map(({ category, bytes }) => [
              words(category),
              `${kib(bytes[tile])} KiB`,
              categoryFill(category, color).color,
            ])
            .reverse(),
        ]),
    },
    xAxis: {
      type: "category",
      name: "tile",
      boundaryGap: false,
      data: Array.from({ length: device.tiles }, (_, tile) => tile),
      axisTick: { show: false },
    },
    yAxis: {
      type: "value",
      name: "KiB",
      max: withLimit ? (1.04 * top) / 1024 : undefined,
      axisLabel: { formatter: (value) => whole.format(value), showMaxLabel: !withLimit },
    },
    dataZoom: zoomX(),
    series: categories.map(({ category, bytes }, index) =>
      stackedSteps(
        words(category),
        Array.from(bytes, (value) => value / 1024),
        categoryFill(category, color),
        {
          markLine: index || !withLimit ? undefined : limitLine(ipu, color),
        },
      ),
    ),
  };
}

/** Returns the line at the bytes that a tile has. */
function limitLine(ipu, color) {
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: color.limit, type: "dashed", width: 2 },
    label: { color: color.limit, formatter: `limit ${kib(ipu.limit)} KiB`, position: "insideEndTop" },
    data: [{ yAxis: ipu.limit / 1024 }],
  };
}

function categoryTable(ipu) {
  const rows = ipu.categories.map(({ category, always, peak, bytes }) => [
    words(category),
    always?.[ipu.fullest] ?? 0,
    peak?.[ipu.fullest] ?? 0,
    sum([...bytes]) / ipu.device.tiles,
    sum([...bytes]),
  ]);
  const columns = [
    { name: "category" },
    { name: `always live on tile ${ipu.fullest}, KiB`, unit: "KiB" },
    { name: `at the peak on tile ${ipu.fullest}, KiB`, unit: "KiB" },
    { name: "mean tile, KiB", unit: "KiB" },
    { name: "all tiles, bytes", unit: "cycles" },
  ];
  const total = ["all", ...[1, 2, 3, 4].map((column) => sum(rows.map((row) => row[column])))];
  return dataTable({ caption: `Memory of ${ipu.label}`, columns, rows, total });
}

/** Returns the tensors on a tile at the peak; what belongs to no tensor is listed by category. */
function tileCard(ipu, tile) {
  const { stage, categories } = ipu;
  const listed = ipu.hasTensors ? stage.tensors.name.length : 0;
  const rest = new Map(categories.map(({ category, bytes }) => [category, bytes[tile]]));
  const rows = [];
  for (let index = 0; index < listed; index += 1) {
    const bytes = stage.isLive(index, ipu.peakStep) ? stage.bytesOn(index, tile) : 0;
    if (!bytes) continue;
    const tensor = stage.tensor(index);
    rest.set(tensor.category, (rest.get(tensor.category) ?? 0) - bytes);
    rows.push([
      tensor.name,
      layerName(tensor.layer),
      words(tensor.category),
      tensor.alwaysLive ? "always" : `steps ${tensor.firstStep} to ${tensor.lastStep}`,
      bytes,
    ]);
  }
  const place = !ipu.hasTensors
    ? "(tensors are not kept)"
    : ipu.stages.length > 1
      ? "(code, stack, other stages)"
      : "(code, stack)";
  for (const [category, bytes] of rest)
    if (bytes > 0) rows.push([place, "–", words(category), ipu.hasTensors ? "always" : "–", bytes]);
  rows.sort((a, b) => b[4] - a[4]);
  return dataTable({
    caption: `Tile ${tile} of ${ipu.label}: ${kib(ipu.tileBytes[tile])} of ${kib(ipu.limit)} KiB at the peak (step ${ipu.peakStep})`,
    columns: [
      { name: "tensor" },
      { name: ipu.device.words.owner },
      { name: "category" },
      { name: "live" },
      { name: "KiB", unit: "KiB" },
    ],
    rows,
    total: ["all", "", "", "", sum(rows.map((row) => row[4]))],
    search: "Search tensors",
  });
}
