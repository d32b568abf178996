// Tabs: one view at a time on screen, all of them on paper.

/**
 * Returns tabs and their panels. A view has `id`, `title` and `make`, which returns the content of
 * its panel when the view is first shown.
 */
function tabs(label, views) {
  const panels = views.map((view) =>
    h("section", {
      id: `panel-${view.id}`,
      role: "tabpanel",
      "aria-labelledby": `tab-${view.id}`,
      tabindex: "-1",
      hidden: true,
    }),
  );
  const buttons = views.map((view, index) =>
    h(
      "button",
      {
        id: `tab-${view.id}`,
        type: "button",
        role: "tab",
        "aria-controls": `panel-${view.id}`,
        click: () => show(index),
        keydown: (event) => move(event, index),
      },
      view.title,
    ),
  );
  const made = new Set();

  function make(index) {
    if (made.has(index)) return;
    made.add(index);
    panels[index].append(h("h2", { class: "view-title" }, views[index].title), ...views[index].make());
  }

  function show(index, remember = true) {
    panels.forEach((panel, other) => (panel.hidden = other !== index));
    buttons.forEach((button, other) => {
      button.setAttribute("aria-selected", String(other === index));
      button.tabIndex = other === index ? 0 : -1;
    });
    make(index);
    drawCharts();
    if (remember) history.replaceState(null, "", `#${views[index].id}`);
  }

  function move(event, index) {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: views.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + views.length) % views.length;
    show(next);
    buttons[next].focus();
  }

  let before = [];
  const print = () => {
    before = panels.map((panel) => panel.hidden);
    theme.printing = true;
    views.forEach((view, index) => make(index));
    panels.forEach((panel) => (panel.hidden = false));
    document.body.classList.add("printing");
    applyTheme();
    drawCharts();
  };
  const unprint = () => {
    theme.printing = false;
    panels.forEach((panel, index) => (panel.hidden = before[index]));
    document.body.classList.remove("printing");
    applyTheme();
    drawCharts();
  };
  tabs.unregister?.();
  addEventListener("beforeprint", print);
  addEventListener("afterprint", unprint);
  tabs.unregister = () => {
    removeEventListener("beforeprint", print);
    removeEventListener("afterprint", unprint);
  };

  const wanted = views.findIndex((view) => `#${view.id}` === location.hash);
  const list = h("div", { role: "tablist", "aria-label": label }, buttons);
  return {
    list,
    panels,
    show: (id) => show(views.findIndex((view) => view.id === id)),
    start: () => show(Math.max(0, wanted), false),
  };
}
