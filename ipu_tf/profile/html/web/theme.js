// Light and dark colours, patterns, and the switches for them.

const theme = { choice: "auto", patterns: true, listeners: new Set() };
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** Returns whether the page is dark; on paper it is light. */
function isDark() {
  if (theme.printing) return false;
  return theme.choice === "dark" || (theme.choice === "auto" && prefersDark.matches);
}

function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of theme.listeners) listener();
}

/** Colours that differ in lightness as well as in hue. */
const palettes = {
  light: [
    "#0b5cad",
    "#e08214",
    "#1b7f4b",
    "#b3367a",
    "#6b4fa0",
    "#00838f",
    "#9c6500",
    "#c62828",
    "#5d6d7e",
    "#7cb342",
    "#3949ab",
    "#ad7fc4",
    "#8d6e63",
    "#4a90a4",
  ],
  dark: [
    "#6cb2ff",
    "#ffb155",
    "#5fd39a",
    "#ff8ac2",
    "#b9a1ff",
    "#4dd0e1",
    "#e6b85c",
    "#ff8a80",
    "#a9b7c6",
    "#aed581",
    "#9fa8da",
    "#d7b3e8",
    "#bcaaa4",
    "#80cbc4",
  ],
};

/** The names of the colours of the page, as the charts need them. */
function colours() {
  const dark = isDark();
  return {
    text: dark ? "#e6e9ee" : "#1b2733",
    quiet: dark ? "#aab4c0" : "#4f5d6b",
    line: dark ? "#3a4654" : "#d4dbe3",
    back: dark ? "#171d25" : "#ffffff",
    raised: dark ? "#242d38" : "#ffffff",
    limit: dark ? "#ff8a80" : "#b71c1c",
    palette: dark ? palettes.dark : palettes.light,
    compute: dark ? "#5fd39a" : "#1b7f4b",
    exchange: dark ? "#6cb2ff" : "#0b5cad",
    sync: dark ? "#ffb155" : "#e08214",
    host: dark ? "#ff8ac2" : "#b3367a",
    link: dark ? "#b9a1ff" : "#6b4fa0",
    forward: dark ? "#3f78b5" : "#7fb2e5",
    backward: dark ? "#a8673a" : "#f2b27a",
    update: dark ? "#3f8f68" : "#8fd0ae",
    ramp: dark
      ? ["#1d2733", "#2b4d6f", "#3f7fb0", "#7fb6dc", "#e4f1fb"]
      : ["#f0f5fa", "#bcd6ec", "#6fa8d6", "#2a6cab", "#0b2f57"],
  };
}

/** Returns patterns for the colours: strokes, dots and grids that stay quiet on screen. */
function decals() {
  const color = isDark() ? "rgba(0,0,0,0.45)" : "rgba(255,255,255,0.55)";
  const plain = { symbol: "none" };
  const strokes = (rotation, gap, width = 1) => ({
    symbol: "rect",
    color,
    dashArrayX: [1, 0],
    dashArrayY: [width, gap],
    rotation,
  });
  const dots = (size, gap, symbol = "circle") => ({
    symbol,
    color,
    symbolSize: size,
    dashArrayX: [
      [gap, gap],
      [0, gap, gap, 0],
    ],
    dashArrayY: [gap, 0],
  });
  return [
    plain,
    strokes(Math.PI / 4, 5, 2),
    dots(0.7, 4),
    strokes(-Math.PI / 4, 5, 2),
    strokes(0, 4),
    strokes(Math.PI / 2, 4),
    dots(0.8, 7, "rect"),
    strokes(Math.PI / 4, 9, 4),
    dots(0.6, 8, "diamond"),
    strokes(-Math.PI / 4, 9, 4),
    strokes(0, 9, 4),
    dots(0.8, 6, "triangle"),
    strokes(Math.PI / 2, 9, 4),
    dots(0.4, 3),
  ];
}

/** Returns the switches: colours, and patterns. */
function themeSwitches() {
  const choices = [
    ["auto", "as the system"],
    ["light", "light"],
    ["dark", "dark"],
  ];
  const chosen = select("Colours", choices, theme.choice, (value) => {
    theme.choice = value;
    applyTheme();
  });
  const patterns = h("button", {
    type: "button",
    "aria-pressed": String(theme.patterns),
    click: (event) => {
      theme.patterns = !theme.patterns;
      event.currentTarget.setAttribute("aria-pressed", String(theme.patterns));
      applyTheme();
    },
  });
  patterns.append("Patterns");
  return [chosen, patterns, h("button", { type: "button", click: () => window.print() }, "Print")];
}

prefersDark.addEventListener("change", applyTheme);
