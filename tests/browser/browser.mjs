// A page in headless Chromium, with everything that it should not do written down.
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const axeSource = createRequire(import.meta.url)("axe-core").source;

/** Opens a page; `faults` gets errors of the console, and requests for anything that is not `within`. */
export async function open(address, options = {}) {
  const { theme = "light", width = 1400, height = 1000, ready = true, within } = options;
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    // Chromium has no sandbox for the user root, as in containers.
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
  });
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    serviceWorkers: "block",
  });
  const faults = [];
  await context.route("**/*", (route) => {
    const asked = route.request().url();
    if (within ? asked.startsWith(within) : asked === address) return route.continue();
    faults.push(`request for ${asked.slice(0, 100)}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.stack}`));
  page.setDefaultTimeout(20_000);
  const begin = Date.now();
  await page.goto(address);
  if (ready) await page.waitForSelector("html[data-ready]");
  return { browser, page, faults, milliseconds: Date.now() - begin };
}

/** Returns the ids of the views of the program that is shown. */
export async function viewsOf(page) {
  return page.locator('[role="tab"]').evaluateAll((tabs) => tabs.map((tab) => tab.id.slice("tab-".length)));
}

/** Shows a view by the mouse and waits until its charts are drawn. */
export async function show(page, view) {
  await page.click(`#tab-${view}`);
  await page.waitForSelector(`#panel-${view}:not([hidden])`);
  await frames(page, 2);
}

/** Waits for frames to be drawn. */
export async function frames(page, count) {
  await page.evaluate(async (number) => {
    for (let frame = 0; frame < number; frame += 1) await new Promise(requestAnimationFrame);
  }, count);
}

/** Returns the tables that can be seen in a view: captions, columns, rows and the last row. */
export async function tablesOf(page, view) {
  return page.locator(`#panel-${view} table:visible`).evaluateAll((tables) => {
    const cells = (row) => [...row.children].map((cell) => cell.textContent.trim());
    return tables.map((table) => ({
      caption: table.caption.textContent,
      columns: cells(table.tHead.rows[0]),
      rows: [...table.tBodies[0].rows].map(cells),
      total: table.tFoot ? cells(table.tFoot.rows[0]) : null,
    }));
  });
}

/** Opens every table that stands for a chart, and all rows of long tables. */
export async function openTables(page, view) {
  for (const details of await page.locator(`#panel-${view} details.figures`).all()) {
    if ((await details.getAttribute("open")) === null) await details.locator("summary").click();
  }
  await frames(page, 2); // Tables are filled when they have opened.
  for (const more of await page.locator(`#panel-${view} .below button:visible`).all()) {
    while (await more.isVisible()) await more.click();
  }
}
