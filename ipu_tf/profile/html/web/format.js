// Figures as people read them, with the digits of the text report.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-US", {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
  roundingMode: "halfEven",
});

const plain = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 8 });

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
  return seconds ? scaled(seconds, "s", ["", "m", "u", "n"]) : "0 s";
}

/** Returns a value with the first prefix that leaves a digit before the point, else the last one. */
function scaled(value, unit, prefixes) {
  const power = prefixes.findIndex((_, index) => value >= 1000 ** -index);
  const index = power < 0 ? prefixes.length - 1 : power;
  return `${one.format(value / 1000 ** -index)} ${prefixes[index]}${unit}`;
}

/** Returns a text with a capital. */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

const kib = (bytes) => one.format(bytes / 1024);

/** Returns a size of memory with the binary prefix that leaves a digit before the point. */
function memory(bytes) {
  const prefixes = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (Math.round(bytes * 10) / 10 >= 1024 && power < prefixes.length - 1) {
    bytes /= 1024;
    power += 1;
  }
  return `${(power ? one : whole).format(bytes)} ${prefixes[power]}`;
}

const percent = (share) => `${one.format(100 * share)}%`;

/** Writers of numbers by unit; a number without a unit keeps its digits. */
const units = {
  "": (value) => (typeof value === "number" ? plain.format(value) : String(value)),
  cycles: (value) => whole.format(value),
  count: (value) => count(value),
  bytes: (value) => count(value, "B"),
  KiB: (value) => kib(value),
  MiB: (value) => `${plain.format(value)} MiB`,
  memory,
  percent,
  joules: (value) => scaled(value, "J", ["", "m", "u", "n", "p"]),
  ratio: (value) => value.toFixed(2),
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
