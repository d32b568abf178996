// The colour and pattern of each category of memory and kind of time: the same in every view.

const CATEGORIES = [
  "weights",
  "optimizer_state",
  "accumulators",
  "state",
  "inputs",
  "constants",
  "activations",
  "fifos",
  "scratch",
  "exchange_buffers",
  "vertex_state",
  "vertex_code",
  "exchange_code",
  "stack",
];

/** Returns the fill of a category: its colour, and its pattern if patterns are on. */
function categoryFill(category, color) {
  const index = Math.max(0, CATEGORIES.indexOf(category));
  return {
    color: color.palette[index % color.palette.length],
    decal: theme.patterns ? decals()[index % 14] : null,
  };
}

/** Returns a fill with the pattern of a number. */
function fill(color, pattern) {
  return { color, decal: theme.patterns ? decals()[pattern] : null };
}

/** Returns the fill of a kind of time. */
function kindFill(kind, color) {
  return fill(color[kind], ["compute", "exchange", "sync", "host", "link"].indexOf(kind));
}

/** Returns the fill of a phase. */
function phaseFill(phase, color) {
  return fill(color[phase], [0, 1, 2][PHASES.indexOf(phase)] ?? 0);
}
