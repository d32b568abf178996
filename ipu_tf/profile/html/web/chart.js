// Charts that can be reached, read and moved through with the keyboard.

const charts = new Set();

/** Draws the charts that can be seen and have changed. */
function drawCharts() {
  for (const chart of charts) {
    if (chart.element.isConnected) chart.draw();
    else if (chart.placed) chart.discard();
  }
}

theme.listeners.add(() => {
  for (const chart of charts) chart.restyle();
});

/** Returns what charts look like when their option does not say otherwise. */
function chartTheme(color) {
  const text = { color: color.text, fontFamily: "system-ui, sans-serif" };
  const axis = {
    axisLine: { lineStyle: { color: color.quiet } },
    axisTick: { lineStyle: { color: color.quiet } },
    axisLabel: { color: color.quiet, hideOverlap: true },
    nameTextStyle: { color: color.quiet },
    splitLine: { lineStyle: { color: color.line } },
  };
  return {
    color: color.palette,
    textStyle: text,
    categoryAxis: { ...axis, splitLine: { show: false } },
    valueAxis: axis,
    logAxis: axis,
    legend: {
      top: 0,
      bottom: null,
      textStyle: { color: color.text },
      inactiveColor: color.quiet,
      pageTextStyle: { color: color.text },
    },
    tooltip: {
      confine: true,
      backgroundColor: color.raised,
      borderColor: color.quiet,
      textStyle: { color: color.text, fontSize: 13 },
      transitionDuration: 0,
    },
    visualMap: { textStyle: { color: color.text } },
    dataZoom: {
      borderColor: color.line,
      textStyle: { color: color.quiet },
      fillerColor: isDark() ? "rgba(108,178,255,0.22)" : "rgba(11,92,173,0.14)",
      handleStyle: { color: color.back, borderColor: color.quiet },
      moveHandleStyle: { color: color.quiet },
    },
  };
}

/** Returns the content of a tooltip: a heading, and lines of a name and a value. */
function tip(heading, lines) {
  return h(
    "div",
    { class: "tip" },
    h("strong", {}, heading),
    lines.map(([name, value, color]) => {
      const mark = h("span", { class: "mark" });
      if (color) mark.style.background = color;
      return h("div", { class: "tip-line" }, mark, h("span", {}, name), h("span", { class: "value" }, value));
    }),
  );
}

/** Returns the sliders that zoom a chart along x. */
function zoomX(more = {}) {
  const shared = { xAxisIndex: 0, filterMode: "none", ...more };
  return [
    { type: "inside", ...shared, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: true },
    { type: "slider", ...shared, height: 22, bottom: 8, showDetail: false, brushSelect: true },
  ];
}

/** Returns a series of steps that lie on one another, one step for each tile. */
function stackedSteps(name, values, style, more = {}) {
  return {
    name,
    type: "line",
    stack: "all",
    step: "middle",
    symbol: "none",
    silent: true,
    lineStyle: { width: 0 },
    itemStyle: style,
    areaStyle: { ...style, opacity: 1 },
    data: values,
    ...more,
  };
}

/**
 * A chart with its heading, description and table.
 *
 * `option(colours)` returns the option of ECharts. `describe()` says what can be seen. `cursor` is
 * what arrow keys move through: `count()`, `start()`, `row()` (entries of a row, for up and down),
 * `move(index, key)` (the entry that an arrow leads to, null for the next one),
 * `target(index)` (the action that shows it), `fraction(index)` (its place along x, 0 to 1) and
 * `describe(index)`. `activate(index)` opens an entry. `at(params, instance)` finds the entry that
 * a click hits. `table()` returns the same figures as a table.
 */
class ChartPanel {
  constructor(parts) {
    Object.assign(this, { height: 360, cursor: null, activate: null, table: null, ...parts });
    this.index = null;
    this.window = [0, 100];
    this.canvas = h("div", { class: "canvas", "aria-hidden": "true" });
    this.frame = h(
      "div",
      {
        class: "frame",
        role: "application",
        tabindex: "0",
        "aria-roledescription": "chart",
        keydown: (event) => this.#key(event),
        blur: () => this.instance?.dispatchAction({ type: "hideTip" }),
      },
      this.canvas,
    );
    this.canvas.style.height = `${this.height}px`;
    this.caption = h("figcaption", {}, this.title);
    this.hint = h("p", { class: "hint" }, this.#keys());
    this.element = h("figure", { class: "chart" }, this.caption, this.frame, this.hint);
    if (this.table) this.element.append(this.#details());
    this.stale = true;
    charts.add(this);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** Draws it anew, with other figures. */
  update() {
    this.stale = true;
    if (this.details?.open) this.#fillTable();
    this.draw();
  }

  restyle() {
    this.instance?.setTheme(chartTheme(colours()));
    this.stale = true;
    this.draw();
  }

  draw() {
    if (!this.canvas.clientWidth) return;
    this.placed = true;
    if (!this.instance) this.#start();
    if (this.stale) {
      this.stale = false;
      this.frame.setAttribute("aria-label", `${this.title}. ${this.describe()}`);
      const color = colours();
      const shared = {
        animation: false,
        aria: { enabled: true, label: { enabled: false }, decal: { show: theme.patterns, decals: decals() } },
      };
      const option = this.option(color);
      for (const zoom of option.dataZoom ?? []) [zoom.start, zoom.end] = this.window;
      this.instance.setOption({ ...shared, ...option }, { notMerge: true });
    }
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.instance.getWidth() !== width || this.instance.getHeight() !== height) {
      this.instance.resize({ width, height });
    }
  }

  discard() {
    this.instance?.dispose();
    charts.delete(this);
  }

  #start() {
    this.instance = echarts.init(this.canvas, chartTheme(colours()));
    this.instance.on("datazoom", () => {
      const [zoom] = this.instance.getOption().dataZoom;
      this.window = [zoom.start, zoom.end];
    });
    if (!this.activate) return;
    if (this.at) {
      this.instance.getZr().on("click", (event) => {
        const index = this.at([event.offsetX, event.offsetY], this.instance);
        if (index !== null) this.#open(index);
      });
    } else {
      this.instance.on("click", (params) => this.#open(params.dataIndex));
    }
  }

  #open(index) {
    this.index = index;
    this.activate(index);
  }

  #keys() {
    if (!this.cursor) return "";
    const zooms = this.cursor.fraction ? " + and − zoom, 0 shows all." : "";
    const opens = this.activate ? " Enter or a click opens it." : "";
    return `Arrow keys move through the chart.${opens}${zooms}`;
  }

  #key(event) {
    if (!this.cursor || event.ctrlKey || event.metaKey || event.altKey) return;
    const count = this.cursor.count();
    if (!count) return;
    const now = this.index ?? this.cursor.start?.() ?? 0;
    const row = this.cursor.row?.() ?? 0;
    const jump = row || Math.max(1, Math.round(count / 20));
    const first = this.index === null ? 0 : 1;
    const moved = this.index === null ? null : (this.cursor.move?.(now, event.key) ?? null);
    const to =
      moved ??
      {
        ArrowRight: now + first,
        ArrowLeft: now - first,
        ArrowDown: now + jump * first,
        ArrowUp: now - jump * first,
        PageDown: now + 10 * jump,
        PageUp: now - 10 * jump,
        Home: 0,
        End: count - 1,
      }[event.key];
    if (to !== undefined) this.point(Math.min(count - 1, Math.max(0, to)));
    else if ((event.key === "Enter" || event.key === " ") && this.activate) {
      this.point(now);
      this.#open(now);
    } else if (event.key === "+" || event.key === "=") this.#zoom(0.5, now);
    else if (event.key === "-") this.#zoom(2, now);
    else if (event.key === "0") this.#setWindow(0, 100);
    else if (event.key === "Escape") this.instance.dispatchAction({ type: "hideTip" });
    else return;
    event.preventDefault();
  }

  /** Moves the cursor to an entry, shows it and says it. */
  point(index) {
    this.index = index;
    const place = this.cursor.fraction?.(index);
    if (place !== undefined) this.#reveal(100 * place);
    const target = this.cursor.target(index);
    this.instance.dispatchAction({ type: "showTip", ...target });
    if (target.seriesIndex !== undefined) {
      this.instance.dispatchAction({ type: "downplay" });
      this.instance.dispatchAction({ type: "highlight", ...target });
    }
    announce(this.cursor.describe(index));
  }

  #reveal(place) {
    const [start, end] = this.window;
    if (place >= start && place <= end) return;
    const begin = Math.min(100 - (end - start), Math.max(0, place - (end - start) / 2));
    this.#setWindow(begin, begin + end - start);
  }

  #zoom(factor, index) {
    if (!this.cursor.fraction) return;
    const [start, end] = this.window;
    const length = Math.min(100, Math.max(0.01, (end - start) * factor));
    const middle = 100 * this.cursor.fraction(index);
    const begin = Math.min(100 - length, Math.max(0, middle - length / 2));
    this.#setWindow(begin, begin + length);
  }

  /** Shows a part of x, from one place to another (0 to 1). */
  zoomTo(from, to) {
    this.#setWindow(100 * from, 100 * to);
  }

  #setWindow(start, end) {
    if (!this.cursor?.fraction) return;
    this.window = [start, end];
    this.instance.dispatchAction({ type: "dataZoom", start, end });
  }

  #details() {
    this.details = h("details", { class: "figures", toggle: () => this.details.open && this.#fillTable() });
    this.details.append(h("summary", {}, `${this.title}: as a table`));
    this.tablePlace = h("div");
    this.details.append(this.tablePlace);
    return this.details;
  }

  #fillTable() {
    this.tablePlace.replaceChildren(this.table());
  }
}
