// Elements and data of the page. Text of a report only ever becomes text nodes, never markup.

/** Returns an element; attributes that are functions are listeners, null ones are left out. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Returns the data of the page. */
async function pageData() {
  const text = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text());
}

/** Says a text to users of screen readers. */
function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Returns a labelled list of choices; `choose` gets the value of the chosen one. */
function select(label, choices, chosen, choose) {
  const options = choices.map(([value, text]) =>
    h("option", { value, selected: String(value) === String(chosen) }, text),
  );
  const list = h("select", { change: (event) => choose(event.target.value) }, options);
  return h("label", { class: "choice" }, h("span", {}, label), list);
}

/** Returns a list of names and values. */
function facts(entries) {
  return h(
    "dl",
    { class: "facts" },
    entries
      .filter(([, value]) => value !== null)
      .map(([name, value, more]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value, more ? h("span", { class: "more" }, more) : null)),
      ),
  );
}

/** Returns paragraphs marked as caveats. */
function caveats(texts) {
  return texts.map((text) => h("p", { class: "note" }, text));
}

/** Returns the end of the page: where the figures come from, and the licences of the charts. */
function footer(data) {
  return h(
    "footer",
    {},
    h(
      "p",
      {},
      "Written by ipu_tf. Every figure of the IPU is modelled; nothing was measured on one.",
      data.host ? " Times of the host are measured, on the computer that simulates it." : "",
    ),
    h("details", {}, h("summary", {}, "Licences of the charts"), h("pre", {}, data.licences)),
  );
}

/** Starts the page when its data, which come last, are there; a file that was cut short says so. */
function begin(start) {
  addEventListener("DOMContentLoaded", async () => {
    const loading = document.getElementById("loading");
    let data;
    try {
      data = await pageData();
    } catch (error) {
      loading.setAttribute("role", "alert");
      loading.textContent = `This file is damaged, its figures cannot be read (${error.message}). Write it once more with report.to_html(path).`;
      return;
    }
    loading.remove();
    start(data);
    performance.mark("ready");
    document.documentElement.dataset.ready = "true";
  });
}
