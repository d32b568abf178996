// Tasks with pages of the documents' site.
import { axeSource, frames } from "./browser.mjs";

/** Returns what a page looks like: its style, tabs, pictures and tables. */
export async function style(page) {
  return page.evaluate(() => {
    const computed = (selector) => getComputedStyle(document.querySelector(selector));
    const tables = [...document.querySelectorAll(".md-content table")].map((table) => {
      const scrolled = table.closest(".md-typeset__scrollwrap");
      return { own: table.scrollWidth, box: scrolled.clientWidth, overflow: getComputedStyle(scrolled).overflowX };
    });
    return {
      header: computed(".md-header").position,
      colour: computed(".md-header").backgroundColor,
      font: computed("body").fontFamily,
      tabs: [...document.querySelectorAll(".md-tabs__link")].map((link) => link.textContent.trim()),
      pictures: [...document.querySelectorAll(".md-content img")].map((picture) => picture.naturalWidth),
      tables,
      excess: document.documentElement.scrollWidth - innerWidth,
    };
  });
}

/** Types a query, and returns the results and what a section among them leads to. */
export async function search(page, { query, section }) {
  await ask(page, query);
  const results = await page.locator(".md-search-result__item h1").allTextContents();
  const link = page.locator(".md-search-result__item a", { has: page.getByRole("heading", { name: section }) });
  await link.first().click();
  await page.locator(".md-content mark").first().waitFor();
  return { results, marked: await page.locator(".md-content mark").allTextContents(), reached: page.url() };
}

/** Returns what axe finds in a page. */
export async function audit(page) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { preload: false, resultTypes: ["violations"] }));
  return violations.map(({ id, impact, nodes }) => ({
    id,
    impact,
    where: nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)),
  }));
}

/** Writes a picture of what can be seen of a page, with the results of a query if there is one. */
export async function picture(page, { file, query }) {
  if (query) await ask(page, query);
  await frames(page, 4);
  await page.waitForTimeout(500); // The results slide in.
  await page.screenshot({ path: file });
  return file;
}

async function ask(page, query) {
  await page.locator(".md-search__input").click();
  await page.keyboard.type(query);
  await page.locator(".md-search-result__item").first().waitFor();
}
