// The page of a report: a choice of programs, and the views of one.

const VIEWS = [
  { id: "summary", title: "Summary", make: summaryView, of: (program) => program.device },
  { id: "numerics", title: "Numerics", make: numericsView, of: (program) => program.nonfinite.length },
  { id: "memory", title: "Memory", make: memoryView, of: (program) => program.device },
  { id: "liveness", title: "Liveness", make: livenessView, of: (program) => program.device },
  { id: "execution", title: "Execution", make: executionView, of: (program) => program.device },
  { id: "tiles", title: "Tiles", make: tilesView, of: (program) => program.device },
  { id: "operations", title: "Operations", make: operationsView, of: (program) => program.device },
  { id: "plans", title: "Plans", make: plansView, of: (program) => program.tileOps.length },
  { id: "pipeline", title: "Pipeline", make: pipelineView, of: (program) => program.device?.pipeline },
  { id: "host", title: "Host", make: hostView, of: (program, data) => data.host },
];

/** Returns why a program has no figures. */
function refusalView(program) {
  const text = program.refusal || "It was traced, but not compiled.";
  return [
    h(
      "div",
      { class: "card" },
      h("h3", {}, "This program is not compiled for the machine"),
      text.split("\n").map((line) => h("p", {}, line)),
    ),
    ...(program.nativeOps.length ? [nativeTable(program.nativeOps)] : []),
  ];
}

function showProgram(plain, data, place) {
  const program = { ...plain, device: plain.device && new Device(plain.device) };
  const own = VIEWS.filter((view) => view.of(program, data));
  if (!program.device) own.unshift({ id: "summary", title: "Summary", make: refusalView });
  const found = tabs(
    "Views of the program",
    own.map((view) => ({ ...view, make: () => view.make(program, { notes: data.notes, data }) })),
  );
  place.where.textContent = program.device
    ? `${program.name}${program.device.where}`
    : `${program.name} is not compiled for the machine`;
  place.tabs.replaceChildren(found.list);
  place.main.replaceChildren(...found.panels);
  found.start();
}

function start(data) {
  const place = {
    where: h("p", { class: "where" }),
    tabs: h("div"),
    main: h("main", { id: "content", tabindex: "-1" }),
  };
  const show = (index) => showProgram(data.programs[index], data, place);
  const choice =
    data.programs.length > 1
      ? select(
          "Program",
          data.programs.map(({ name }, index) => [index, `${index + 1}. ${cut(name, 60)}`]),
          0,
          (index) => show(Number(index)),
        )
      : null;
  const heading = data.programs.length === 1 ? data.programs[0].name : "Report";
  document
    .getElementById("root")
    .append(
      h("a", { class: "skip", href: "#content" }, "Skip to the content"),
      h(
        "header",
        {},
        h(
          "div",
          { class: "head" },
          h("div", {}, h("h1", {}, heading), place.where),
          h("div", { class: "switches" }, choice, themeSwitches()),
        ),
        place.tabs,
      ),
      place.main,
      footer(data),
      h("div", { id: "announcer", class: "announcer", role: "status", "aria-live": "polite" }),
    );
  applyTheme();
  if (data.programs.length) show(0);
  else
    place.main.append(
      ...caveats([
        "No program has been traced: call `strategy.run`, or `fit` a model in the scope.",
        ...data.notes,
      ]),
    );
}

begin(start);
