// Figures as people read them, with the digits of the text report.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-US", {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
  roundingMode: "halfEven",
});

/** Returns a number with the prefix that leaves one to three digits before the point. */
function count(value, unit = "") {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let power = 0;
  while (Math.round(Math.abs(value) * 10) / 10 >= 1000 && power < prefixes.length - 1) {
    value /= 1000;
    power += 1;
  }
  const digits = power === 0 && Number.isInteger(value) ? whole : one;
  return `${digits.format(value)} ${prefixes[power]}${unit}`.trim();
}

/** Returns a time in the unit that leaves at least one digit before the point. */
function duration(seconds) {
  if (!seconds) return "0 s";
  const units = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "us"],
    [1e-9, "ns"],
  ];
  const [scale, unit] = units.find(([size]) => seconds >= size) ?? units.at(-1);
  return `${one.format(seconds / scale)} ${unit}`;
}

const kib = (bytes) => one.format(bytes / 1024);
const percent = (share) => `${one.format(100 * share)}%`;

/** Writers of numbers by unit; a number without a unit keeps its digits. */
const units = {
  "": (value) => (typeof value === "number" ? new Intl.NumberFormat("en-US").format(value) : String(value)),
  cycles: (value) => whole.format(value),
  count: (value) => count(value),
  bytes: (value) => count(value, "B"),
  KiB: (value) => kib(value),
  percent,
  seconds: duration,
  "samples/s": (value) => one.format(value),
};

/** Returns a number of cycles in words of an axis: "1.5 M". */
const shortCycles = (value) => count(value);

/** Returns the sum of numbers. */
const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Returns a text of at most `length` characters that keeps both ends. */
function cut(text, length = 48) {
  if (text.length <= length) return text;
  const front = Math.ceil((length - 1) / 2);
  return `${text.slice(0, front)}…${text.slice(text.length - (length - 1 - front))}`;
}

/** Returns a name for a category of memory: "optimizer state". */
const words = (name) => name.replaceAll("_", " ");

/** Returns the layer of a step or a tensor. */
const layerName = (layer) => layer || "(no layer)";
