// Numerics: where the first NaN or infinity came from.

function numericsView(program) {
  return program.nonfinite.flatMap((fault) => [
    h(
      "div",
      { class: "card" },
      h("h3", {}, fault.title),
      fault.facts.map(([name, value]) => h("p", {}, h("strong", {}, `${name}: `), value)),
    ),
    dataTable({
      caption: "What it read, and what it computed",
      columns: [
        { name: "tensor" },
        { name: "type" },
        { name: "lowest" },
        { name: "highest" },
        { name: "zeros", unit: "cycles" },
        { name: "infinite", unit: "cycles" },
        { name: "NaN", unit: "cycles" },
      ],
      rows: fault.tensors,
    }),
    ...(fault.sizes.length ? [sizeChart(fault).element] : []),
  ]);
}

/** Returns a chart of how many values of each operand there are, by their size. */
function sizeChart({ operands, sizes }) {
  const line = ([size, counts]) =>
    `${size}: ${counts.map((number, index) => `${whole.format(number)} of ${operands[index]}`).join(", ")}`;
  return new ChartPanel({
    title: "Sizes of the operands' values",
    height: 300,
    describe: () => sizes.map(line).join("; "),
    option: (color) => ({
      grid: { left: 10, right: 20, top: 34, bottom: 10, containLabel: true },
      legend: { top: 0 },
      tooltip: {
        trigger: "axis",
        formatter: ([{ dataIndex }]) =>
          tip(
            sizes[dataIndex][0],
            operands.map((name, index) => [
              cut(name, 40),
              whole.format(sizes[dataIndex][1][index]),
              color.palette[index % color.palette.length],
            ]),
          ),
      },
      xAxis: { type: "category", data: sizes.map(([size]) => size) },
      yAxis: { type: "value", axisLabel: { formatter: (value) => count(value) } },
      series: operands.map((name, index) => ({
        name: cut(name, 40),
        type: "bar",
        data: sizes.map(([, counts]) => counts[index]),
      })),
    }),
    cursor: {
      count: () => sizes.length,
      target: (index) => ({ seriesIndex: 0, dataIndex: index }),
      describe: (index) => line(sizes[index]),
    },
    table: () =>
      dataTable({
        caption: "Number of values by size",
        columns: [{ name: "size" }, ...operands.map((name) => ({ name, unit: "cycles" }))],
        rows: sizes.map(([size, counts]) => [size, ...counts]),
      }),
  });
}
