// Does a task with a page and prints what it found as JSON:
//   node drive.mjs TASK ADDRESS [OPTIONS AS JSON]
import { axeSource, frames, open, openTables, show, tablesOf, viewsOf } from "./browser.mjs";
import * as site from "./site.mjs";

/** Uses every view with the mouse. */
async function mouse(page) {
  const seen = {};
  for (const view of await viewsOf(page)) {
    await show(page, view);
    seen[view] = { charts: [], captions: [] };
    for (const frame of await page.locator(`#panel-${view} .frame:visible`).all()) {
      await frame.scrollIntoViewIfNeeded();
      const box = await frame.locator("canvas").first().boundingBox();
      const place = [box.x + box.width * 0.35, box.y + box.height * 0.45];
      await page.mouse.move(...place);
      await page.mouse.move(place[0] + 2, place[1] + 1);
      await frames(page, 3);
      const tip = frame.locator(".tip");
      seen[view].charts.push({
        label: await frame.getAttribute("aria-label"),
        tip: (await tip.count()) ? await tip.first().innerText() : "",
      });
      await page.mouse.click(...place);
      await frames(page, 2);
    }
    for (const head of await page.locator(`#panel-${view} thead button:visible`).all()) await head.click();
    seen[view].captions = await page.locator(`#panel-${view} caption:visible`).allTextContents();
  }
  return seen;
}

/** Uses every view with the keyboard alone. */
async function keyboard(page) {
  const seen = {};
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => document.activeElement.textContent);
  const views = await viewsOf(page);
  await page.locator('[role="tab"][aria-selected="true"]').focus();
  const said = () => page.locator("#announcer").textContent();
  for (const [number, view] of views.entries()) {
    if (number) await page.keyboard.press("ArrowRight");
    const selected = await page.evaluate(() => document.activeElement.id);
    if (selected !== `tab-${view}`) throw new Error(`expected tab-${view} at the focus, not ${selected}`);
    await frames(page, 2);
    seen[view] = { charts: [], opened: [] };
    for (const frame of await page.locator(`#panel-${view} .frame:visible`).all()) {
      await frame.focus();
      const spoken = [];
      for (const key of [
        "Home",
        "ArrowRight",
        "ArrowDown",
        "ArrowUp",
        "ArrowLeft",
        "+",
        "+",
        "End",
        "PageUp",
        "-",
        "0",
        "Home",
      ]) {
        await page.keyboard.press(key);
        spoken.push(await said());
      }
      await page.keyboard.press("End");
      await page.keyboard.press("Enter");
      spoken.push(await said());
      await page.keyboard.press("Escape");
      seen[view].charts.push({ label: await frame.getAttribute("aria-label"), spoken });
    }
    for (const details of await page.locator(`#panel-${view} details > summary:visible`).all()) {
      await details.focus();
      await page.keyboard.press("Enter");
    }
    for (const field of await page.locator(`#panel-${view} input[type=search]:visible`).all()) {
      await field.focus();
      await page.keyboard.type("conv");
    }
    seen[view].captions = await page
      .locator(`#panel-${view} caption:visible, #panel-${view} h3:visible`)
      .allTextContents();
    await page.locator(`#tab-${view}`).focus();
  }
  return { skip, views: seen };
}

/** Returns the tables of every view, IPU by IPU where there is a choice. */
async function figures(page) {
  const found = {};
  for (const view of await viewsOf(page)) {
    await show(page, view);
    const choice = page.locator(`#panel-${view} .controls label:has(span:text-is("IPU")) select`);
    const ipus = (await choice.count()) ? await choice.locator("option").count() : 1;
    const rows = page.locator(`#panel-${view} .controls label:has(span:text-is("Rows")) select`);
    const ways = (await rows.count()) ? ["layer", "step"] : [null];
    found[view] = [];
    for (let ipu = 0; ipu < ipus; ipu += 1) {
      if (ipus > 1) await choice.selectOption(String(ipu));
      for (const way of ways) {
        if (way) await rows.selectOption(way);
        await openTables(page, view);
        found[view].push(await tablesOf(page, view));
      }
    }
    found[view].push(await page.locator(`#panel-${view}`).innerText());
  }
  return found;
}

/** Returns the findings of axe in every view, with tables open. */
async function axe(page) {
  await page.evaluate(axeSource);
  const found = [];
  for (const view of await viewsOf(page)) {
    await show(page, view);
    for (const details of await page.locator(`#panel-${view} details.figures > summary:visible`).all())
      await details.click();
    const { violations } = await page.evaluate(() =>
      globalThis.axe.run(document, { resultTypes: ["violations"] }),
    );
    for (const { id, impact, nodes } of violations)
      found.push({ view, id, impact, where: nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)) });
  }
  return found;
}

/** Shows a step of the flame chart, and colours the tiles by each figure. */
async function tiles(page) {
  await show(page, "execution");
  const frame = page.locator("#panel-execution .frame").first();
  await frame.focus();
  const steps = [];
  await page.keyboard.press("Home");
  for (let row = 0; row < 12 && !(await page.locator("#panel-execution h3").count()); row += 1) {
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
  }
  await openTables(page, "execution");
  steps.push(await page.locator("#panel-execution h3").textContent(), await tablesOf(page, "execution"));
  await show(page, "tiles");
  const colour = page.locator('#panel-tiles label:has(span:text-is("Colour")) select');
  const figuresShown = {};
  for (const name of await colour.locator("option").allTextContents()) {
    await colour.selectOption(name);
    for (const step of ["", "1"]) {
      await page.locator("#panel-tiles input[type=number]").fill(step);
      await page.keyboard.press("Tab");
      figuresShown[`${name} ${step}`.trim()] = await page
        .locator("#panel-tiles .frame")
        .getAttribute("aria-label");
    }
  }
  return { steps, figuresShown };
}

/** Returns how often the views follow a switch of colours and patterns, and what is printed. */
async function looks(page) {
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const found = [await theme()];
  const choice = page.locator('label:has(span:text-is("Colours")) select');
  for (const name of ["dark", "light", "auto"]) {
    await choice.selectOption(name);
    found.push(await theme());
  }
  const patterns = page.getByRole("button", { name: "Patterns" });
  await patterns.click();
  const pressed = await patterns.getAttribute("aria-pressed");
  await patterns.click();
  await choice.selectOption("dark");
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await frames(page, 2);
  const printed = {
    theme: await theme(),
    views: await page.locator('[role="tabpanel"]:visible').count(),
    canvases: await page.locator("canvas:visible").count(),
  };
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  const pages = (await page.pdf({ format: "A4" })).length;
  return {
    themes: found,
    pressed,
    printed,
    pages,
    after: await theme(),
    views: await page.locator('[role="tabpanel"]:visible').count(),
  };
}

/** Tries to reach the network from the page. */
async function network(page) {
  return page.evaluate(async () => {
    const image = new Promise((resolve) => {
      const element = new Image();
      element.onload = () => resolve("loaded");
      element.onerror = () => resolve("refused");
      element.src = "https://example.org/x.png";
    });
    const fetched = await fetch("https://example.org/").then(
      () => "loaded",
      () => "refused",
    );
    const script = document.createElement("script");
    script.textContent = "globalThis.intruder = true";
    document.body.append(script);
    return { image: await image, fetched, script: globalThis.intruder ?? false };
  });
}

/** Returns the text of the page, whatever it shows. */
async function text(page) {
  for (const view of await viewsOf(page)) await show(page, view);
  await page.waitForTimeout(300);
  const select = page.locator('label:has(span:text-is("Program")) select');
  const programs = (await select.count()) ? await select.locator("option").count() : 1;
  const texts = [];
  for (let number = 0; number < programs; number += 1) {
    if (programs > 1) await select.selectOption(String(number));
    for (const view of await viewsOf(page)) {
      await show(page, view);
      texts.push(await page.locator(`#panel-${view}`).innerText());
    }
  }
  return {
    body: await page.locator("body").innerText(),
    root: await page.locator("#root").innerText(),
    texts,
    intruder: await page.evaluate(() => globalThis.intruder ?? false),
  };
}

/** Uses the charts of a page of sections. */
async function sections(page) {
  const spoken = [];
  for (const frame of await page.locator(".frame").all()) {
    await frame.focus();
    await page.keyboard.press("End");
    spoken.push(await page.locator("#announcer").textContent());
  }
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, { resultTypes: ["violations"] }),
  );
  return {
    spoken,
    text: await page.locator("body").innerText(),
    tables: await page.locator(".scroll").evaluateAll((all) => all.map((one) => one.clientHeight)),
    axe: violations.map(({ id, impact }) => ({ id, impact })),
  };
}

/** Returns the milliseconds from the request to the first view that takes keys. */
async function ready(page) {
  return page.evaluate(() => ({ milliseconds: performance.getEntriesByName("ready")[0].startTime }));
}

/** Writes a picture of each view; `steps` prepare some of them. */
async function screenshots(page, { folder, name, views }) {
  const prepare = {
    execution: async () => {
      const frame = page.locator("#panel-execution .frame").first();
      await frame.focus();
      await page.keyboard.press("Home");
      for (let row = 0; row < 2; row += 1) await page.keyboard.press("ArrowDown");
      for (
        let step = 0;
        step < 60 && !(await page.locator("#announcer").textContent()).startsWith("convolution.5");
        step += 1
      )
        await page.keyboard.press("ArrowRight");
      for (const key of ["Enter", "Escape"]) await page.keyboard.press(key);
      await page.locator("#panel-execution h3").waitFor();
      await frame.blur();
    },
    tiles: async () => {
      await page.locator('#panel-tiles label:has(span:text-is("Colour")) select').selectOption("utilisation");
      await page.locator('#panel-tiles label:has(span:text-is("Scale")) select').selectOption("own");
    },
  };
  for (const view of views) {
    await show(page, view);
    await prepare[view]?.();
    await frames(page, 4);
    await page.evaluate(() => scrollTo(0, 0));
    await page.mouse.move(0, 0);
    await page.screenshot({ path: `${folder}/${name}-${view}.png`, fullPage: true });
  }
  return views;
}

const reports = { axe, figures, keyboard, looks, mouse, network, ready, screenshots, sections, text, tiles };
const tasks = { ...reports, ...site };
const [task, address, options = "{}"] = process.argv.slice(2);
const settings = JSON.parse(options);
const { browser, page, faults, milliseconds } = await open(address, settings);
try {
  const found = await tasks[task](page, settings);
  process.stdout.write(JSON.stringify({ found, faults, milliseconds }));
} catch (error) {
  error.message += `\nFaults so far: ${faults.join("\n")}`;
  throw error;
} finally {
  await browser.close();
}
