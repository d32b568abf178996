// Host: what the host did, beside the modelled time of the device.

const CATEGORY_TONES = {
  trace: 0,
  hlo: 6,
  compile: 4,
  infeed: 1,
  execution: 2,
  outfeed: 5,
  callback: 3,
  checkpoint: 8,
  user: 7,
};

/** Returns the spans with their rows: each track has a row for every level of nesting. */
function hostSpans(host) {
  const open = host.tracks.map(() => []);
  const depths = host.tracks.map(() => 0);
  const spans = host.beginNs.map((begin, index) => {
    const track = host.spanTracks[index];
    const end = begin + host.durationNs[index];
    const ends = open[track];
    while (ends.length && ends.at(-1) <= begin) ends.pop();
    const depth = ends.length;
    ends.push(end);
    depths[track] = Math.max(depths[track], depth + 1);
    const [name, category, program, steps] = host.kinds[host.spanKinds[index]];
    return { track, depth, start: begin / 1e9, end: end / 1e9, label: name, category, program, steps };
  });
  const first = [];
  let row = 0;
  for (const depth of depths) {
    first.push(row);
    row += depth;
  }
  for (const span of spans) span.row = first[span.track] + span.depth;
  const rows = host.tracks.flatMap((track, index) =>
    Array.from({ length: depths[index] }, (_, depth) => (depth ? "" : track)),
  );
  return { spans, rows };
}

/** Returns the modelled seconds of the steps of an execution; null if its program is not known. */
function modelledSeconds(programs, name, steps) {
  const figures = programs.find((program) => program.name === name && program.device)?.device.figures;
  return figures && steps ? (steps / figures.micro_batches) * figures.seconds : null;
}

function hostView(program, { data }) {
  const { host } = data;
  const { spans, rows } = hostSpans(host);
  const deviceRow = rows.length;
  const bars = spans.slice();
  for (const span of spans) {
    const seconds =
      span.category === "execution" ? modelledSeconds(data.programs, span.program, span.steps) : null;
    if (seconds)
      bars.push({
        ...span,
        row: deviceRow,
        end: span.start + seconds,
        label: `${span.program}, modelled`,
        modelled: true,
      });
  }
  const first = spans.reduce((earliest, span) => Math.min(earliest, span.start), Infinity);
  for (const bar of bars) [bar.start, bar.end] = [bar.start - first, bar.end - first];
  bars.sort((a, b) => a.row - b.row || a.start - b.start);
  const labels = [...rows, "IPU (modelled)"];
  const notes = host.dropped
    ? caveats([`The ${whole.format(host.dropped)} oldest spans were dropped: there was no room for them.`])
    : [];
  return [
    ...notes,
    h(
      "p",
      {},
      "Times of the host are measured on the computer that simulates the IPU. The last row is the modelled time of the IPU for the same steps.",
    ),
    hostChart(bars, labels).element,
    kindsOfSpans(host, data.programs),
  ];
}

function hostChart(bars, labels) {
  const end = bars.reduce((latest, bar) => Math.max(latest, bar.end), 0) || 1;
  const what = (bar) => `${bar.label}${bar.program && !bar.modelled ? ` of ${bar.program}` : ""}`;
  return new ChartPanel({
    title: "Spans of the host, and the modelled time of the IPU",
    height: 110 + 30 * labels.length,
    describe: () => `${whole.format(bars.filter((bar) => !bar.modelled).length)} spans in ${duration(end)}`,
    option: (color) => ({
      grid: { left: 130, right: 30, top: 10, bottom: 75 },
      tooltip: {
        formatter: ({ dataIndex }) => {
          const bar = bars[dataIndex];
          return tip(what(bar), [
            ["kind", bar.modelled ? "modelled" : bar.category],
            ["time", duration(bar.end - bar.start)],
            ["from", duration(bar.start)],
            ...(bar.steps ? [["steps", whole.format(bar.steps)]] : []),
          ]);
        },
      },
      xAxis: {
        type: "value",
        min: 0,
        max: end,
        axisLabel: { formatter: (value) => duration(value), showMaxLabel: false },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: labels,
        axisTick: { show: false },
        axisLabel: { interval: 0, formatter: (label) => cut(label, 18) },
      },
      dataZoom: zoomX(),
      series: [
        {
          type: "custom",
          progressive: 0,
          encode: { x: [1, 2], y: 0 },
          clip: true,
          data: bars.map((bar) => [bar.row, bar.start, bar.end]),
          renderItem: drawBars(bars, labels.length, color, (bar) =>
            bar.modelled ? color.compute : color.palette[CATEGORY_TONES[bar.category] ?? 8],
          ),
        },
      ],
    }),
    cursor: {
      count: () => bars.length,
      fraction: (index) => (bars[index].start + bars[index].end) / 2 / end,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) =>
        `${what(bars[index])}, ${bars[index].modelled ? "modelled" : bars[index].category}: ${duration(bars[index].end - bars[index].start)}`,
      move: (index, key) => besides(bars, index, key),
    },
  });
}

/** Returns a table of the kinds of spans, with the modelled time of what they run. */
function kindsOfSpans(host, programs) {
  const rows = host.kinds.map(([name, category, program, steps]) => [
    name,
    category,
    program || null,
    0,
    0,
    modelledSeconds(programs, program, category === "execution" ? steps : 0),
  ]);
  const modelled = rows.map((row) => row[5]);
  host.spanKinds.forEach((kind, index) => {
    rows[kind][3] += 1;
    rows[kind][4] += host.durationNs[index] / 1e9;
  });
  rows.forEach((row, kind) => (row[5] = modelled[kind] === null ? null : modelled[kind] * row[3]));
  return dataTable({
    caption: "Kinds of spans",
    columns: [
      { name: "span" },
      { name: "kind" },
      { name: "program" },
      { name: "spans", unit: "cycles" },
      { name: "host time", unit: "seconds" },
      { name: "modelled IPU time", unit: "seconds" },
    ],
    rows,
    sorted: 4,
    search: "Search spans",
  });
}
