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
    const seconds = host.kindSeconds[host.spanKinds[index]];
    return { track, depth, start: begin / 1e9, end: end / 1e9, label: name, category, program, steps, seconds };
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

/** Returns how dark a bar of some pixels is: the share of its time in which a bar lies there. */
function busyShare(bars) {
  const starts = bars.map((bar) => bar.start);
  const sums = [0];
  for (const bar of bars) sums.push(sums.at(-1) + bar.end - bar.start);
  const until = (time) => {
    let [low, high] = [0, starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low ? sums[low - 1] + Math.min(time, bars[low - 1].end) - starts[low - 1] : 0;
  };
  return (from, to) => (until(to) - until(from)) / (to - from);
}

function hostView(program, { data }) {
  const { host } = data;
  const { spans, rows } = hostSpans(host);
  const deviceRow = rows.length;
  const bars = spans.slice();
  for (const span of spans) {
    if (span.seconds)
      bars.push({
        ...span,
        row: deviceRow,
        end: span.start + span.seconds,
        label: `${span.program}, modelled`,
        modelled: true,
      });
  }
  const first = spans.reduce((earliest, span) => Math.min(earliest, span.start), Infinity);
  for (const bar of bars) [bar.start, bar.end] = [bar.start - first, bar.end - first];
  bars.sort((a, b) => a.row - b.row || a.start - b.start);
  const labels = [...rows, "IPU (modelled)"];
  const busy = sum(spans.map((span) => span.seconds ?? 0));
  const all = bars.reduce((latest, bar) => Math.max(latest, bar.end), 0) || 1;
  const notes = host.dropped
    ? caveats([`The ${whole.format(host.dropped)} oldest spans were dropped: there was no room for them.`])
    : [];
  return [
    ...notes,
    h(
      "p",
      {},
      `Times of the host are measured on the computer that simulates the IPU. The last row is the modelled time of the IPU for the same steps: ${duration(busy)} of ${duration(all)}, ${percent(busy / all)}; it is as dark as the IPU is busy.`,
    ),
    hostChart(bars, labels).element,
    kindsOfSpans(host),
  ];
}

function hostChart(bars, labels) {
  const end = bars.reduce((latest, bar) => Math.max(latest, bar.end), 0) || 1;
  const share = busyShare(bars.filter((bar) => bar.modelled));
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
          renderItem: drawBars(
            bars,
            labels.length,
            color,
            (bar) => (bar.modelled ? color.compute : color.palette[CATEGORY_TONES[bar.category] ?? 8]),
            (bar, seconds) => (bar.modelled ? share(bar.start, bar.start + seconds) : 1),
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
function kindsOfSpans(host) {
  const rows = host.kinds.map(([name, category, program]) => [name, category, program || null, 0, 0, 0, null]);
  host.spanKinds.forEach((kind, index) => {
    rows[kind][3] += 1;
    rows[kind][4] += host.ownNs[index] / 1e9;
    rows[kind][5] += host.durationNs[index] / 1e9;
  });
  rows.forEach((row, kind) => {
    const seconds = host.kindSeconds[kind];
    if (seconds !== null) row[6] = seconds * row[3];
  });
  return dataTable({
    caption: "Kinds of spans",
    columns: [
      { name: "span" },
      { name: "kind" },
      { name: "program" },
      { name: "spans", unit: "cycles" },
      { name: "host time", unit: "seconds" },
      { name: "with spans inside", unit: "seconds" },
      { name: "modelled IPU time", unit: "seconds" },
    ],
    rows,
    sorted: 4,
    search: "Search spans",
  });
}
