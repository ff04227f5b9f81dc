// @ts-check
/**
 * The page of the explorer: one form whose state is the address, panels that each ask one question of the API, and the
 * choice of one deployment among the points of all series. Everything that is calculated is calculated by the server;
 * what is drawn is drawn by Vega from the specifications that answers carry.
 */

/** @typedef {Record<string, string[]>} Fields  options of a question, as texts */
/** @typedef {Record<string, any>} Point  one deployment of a series, as the answer has it */
/** @typedef {{label: string, points: Point[], reason?: string}} Series */
/** @typedef {{title: string, columns: string[], rows: string[][], notes: string[], why: string[]}} Table */
/**
 * @typedef {object} Answer
 * @property {string} command  what one types to ask the same
 * @property {string} text  a script, where that is the answer
 * @property {Record<string, any>} [answer]
 * @property {Table[]} [tables]
 * @property {Record<string, any>} [charts]  Vega-Lite
 */
/** @typedef {{questions: Record<string, string[]>, themes: {light: object, dark: object}, most_series: number, engines: string[]}} Facts */

/** What the server refuses, with the option that caused it. */
class Refused extends Error {
  /** @param {string} message @param {string | null} field */
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);
/** @type {Facts} */
const facts = JSON.parse(byId("facts").textContent);
/** @type {HTMLFormElement} */
const form = byId("question");
const dark = matchMedia("(prefers-color-scheme: dark)");
const SERIES = ["model", "hardware", "weights", "kv", "engine"];
const DEGREES = ["tp", "dp", "pp", "ep"];

/** @param {string} tag @param {Record<string, any>} properties @param {(Node | string)[]} children @returns {any} */
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** The settings of every series, by the names of options. @returns {Record<string, string>[]} */
const series = () =>
  [...form.querySelectorAll(".series")].map((row) =>
    Object.fromEntries(SERIES.map((name) => [name, /** @type {any} */ (row.querySelector(`[name=${name}]`)).value])),
  );

/** The state of all controls as a readable query string: what is empty is left out. */
function state() {
  const all = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  for (const name of new Set(all.keys())) if (!all.getAll(name).join("")) all.delete(name);
  return all.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** What the options of a question are set to by the controls that all series share. @param {string} question */
function shared(question) {
  const values = new FormData(form);
  const proposer = String(values.get("speculation"));
  /** @type {Fields} */
  const fields = proposer ? { [proposer]: ["true"], acceptance: [String(values.get("acceptance"))] } : {};
  for (const name of ["isl", "osl", "request_rate", "ttft", "tpot", "percentile", "price"])
    fields[name] = [String(values.get(name)).trim()];
  fields.set = String(values.get("set")).split("\n").map((line) => line.trim());
  return known(question, fields);
}

/** Fields that a question has and that say something. @param {string} question @param {Fields} fields @returns {Fields} */
function known(question, fields) {
  const entries = Object.entries(fields).map(([name, values]) => [name, values.filter(Boolean)]);
  return Object.fromEntries(entries.filter(([name, values]) => values.length && facts.questions[question].includes(name)));
}

/** What tells series apart, in words. @param {Record<string, string>[]} rows */
function labels(rows) {
  const apart = SERIES.filter((name) => new Set(rows.map((row) => row[name])).size > 1);
  const parts = apart.length ? apart : ["model", "hardware"];
  const plain = rows.map((row) => parts.map((name) => row[name] || `${name} by default`).join(" · "));
  return plain.map((label, index) => (plain.indexOf(label) < index ? `${label} (${index + 1})` : label));
}

/** The address of an answer. @param {string} question @param {Fields} fields @param {string} ending */
function address(question, fields, ending = "") {
  const pairs = Object.entries(fields).flatMap(([name, values]) => values.map((value) => [name, value]));
  return `/api/v1/${question}${ending}?${new URLSearchParams(pairs)}`;
}

/** An answer of the server. @param {string} url @param {RequestInit} [how] @returns {Promise<any>} */
async function fetched(url, how) {
  const lost = byId("lost");
  const reply = await fetch(url, how).catch(() => null);
  lost.hidden = reply !== null;
  if (reply === null) {
    lost.textContent = "The server does not answer: is inference-econ serve still running? The next change asks again.";
    throw new Refused("No answer from the server.", null);
  }
  const content = await reply.json().catch(() => ({ error: { message: `reply ${reply.status} of the server`, field: null } }));
  if (!reply.ok) throw new Refused(content.error.message, content.error.field);
  return content;
}

/** Say beside a control what is wrong with it. @param {Element} control @param {string} message @param {string} by  a panel */
function complain(control, message, by) {
  const error = make("p", { className: "error", id: `wrong-${document.querySelectorAll(".error").length}`, textContent: message });
  error.dataset.by = by;
  (control.closest("label") ?? control).after(error);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", error.id);
}

/** Take back what a panel said beside controls. @param {string} by */
function forgive(by) {
  for (const error of document.querySelectorAll(`.error[data-by="${by}"]`)) {
    const control = document.querySelector(`[aria-describedby="${error.id}"]`);
    control?.removeAttribute("aria-invalid");
    control?.removeAttribute("aria-describedby");
    error.remove();
  }
}

/** The control of an option; of a series if it has its own. @param {string | null} field @param {number} row @returns {Element | null} */
function controlOf(field, row) {
  const name = field === "to" ? "engine" : field;
  const own = form.querySelectorAll(".series")[row]?.querySelector(`[name="${name}"]`);
  return name ? own ?? form.querySelector(`[name="${name}"], [data-options~="${name}"]`) : null;
}

/** A table as people read it. @param {Table} table */
function tableOf(table) {
  const head = make("tr", {}, ...table.columns.map((name) => make("th", { scope: "col", textContent: name })));
  const rows = table.rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", { textContent: cell }))));
  const body = make("table", {}, make("caption", { textContent: table.title }), make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { className: "wide", tabIndex: 0, role: "region", ariaLabel: table.title.split(":")[0] }, body);
}

/** A chart as wide as its place, in the reader's theme; its title stands above it as text. @param {any} spec @param {HTMLElement} place */
async function draw(spec, place) {
  const width = Math.max(260, place.clientWidth - 4);
  const panels = spec.concat ?? spec.hconcat;
  const across = panels && width < 640 ? 1 : panels?.length;
  const sized = panels
    ? { ...spec, columns: across, concat: panels.map((/** @type {any} */ each) => ({ ...each, width: width / across - 75 })) }
    : { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
  const theme = structuredClone(/** @type {any} */ (dark.matches ? facts.themes.dark : facts.themes.light));
  if (width < 640) theme.legend = { ...theme.legend, columns: 1, labelLimit: width - 60 };
  const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", tooltip: { disableDefaultStyle: true } };
  return (await /** @type {any} */ (window).vegaEmbed(place, { ...sized, title: undefined, config: theme }, options)).view;
}

/** Everything that a panel shows of its answer. */
class Panel {
  /** @param {HTMLElement} section */
  constructor(section) {
    this.name = /** @type {string} */ (section.dataset.panel);
    this.question = /** @type {string} */ (section.dataset.question);
    this.place = /** @type {HTMLElement} */ (section.querySelector(".answer"));
    /** @type {any[]} */
    this.views = [];
    /** @type {Answer | null} */
    this.answer = null;
    this.shown = "";
    this.wanted = "";
    this.running = false;
  }

  /** Ask, unless that is what is shown; while an answer is awaited only the latest question is kept. @param {Fields} fields */
  async ask(fields) {
    this.wanted = address(this.question, fields, ".view");
    if (this.running) return;
    this.running = true;
    while (this.shown !== this.wanted) {
      const url = this.wanted;
      this.place.classList.add("waiting");
      try {
        const answer = await fetched(url);
        if (url === this.wanted) await this.show(answer, fields);
        this.shown = url;
      } catch (error) {
        if (url === this.wanted) this.refuse(/** @type {Refused} */ (error));
        this.shown = "";
        if (url === this.wanted) break;
      }
    }
    this.place.classList.remove("waiting");
    this.running = false;
  }

  /** @param {Refused} error */
  refuse(error) {
    forgive(this.name);
    const control = controlOf(error.field, chosen());
    if (control) complain(control, error.message, this.name);
    this.answer = null;
    this.place.replaceChildren(make("p", { className: control ? "help" : "error", textContent: control ? `Not answered: see ${error.field}.` : error.message }));
    byId("status").textContent = error.message;
  }

  /** @param {Answer} answer @param {Fields} fields */
  async show(answer, fields) {
    forgive(this.name);
    this.answer = answer;
    const { tables = [], charts = {}, text, command } = answer;
    const figures = Object.values(charts).map((spec) => [spec, make("figure", { role: "img", ariaLabel: String(spec.title?.text ?? this.name) })]);
    const notes = tables.flatMap((table) => table.notes);
    const links = [["CSV", ".csv"], ["JSON", ".json"], ["SVG", ".svg"], ["PNG", ".png"]].map(([name, ending]) =>
      make("li", {}, make("a", { href: address(this.question, fields, ending), download: `${this.question}${ending}`, textContent: name })),
    );
    this.place.replaceChildren(
      ...figures.map(([, figure]) => figure),
      ...(text ? [make("pre", { tabIndex: 0, textContent: text })] : []),
      ...(tables.length ? [make("details", {}, make("summary", { textContent: "As a table" }), ...tables.map(tableOf))] : []),
      make("details", {}, make("summary", { textContent: "On the command line" }), make("pre", { tabIndex: 0, textContent: command })),
      ...(tables.length ? [make("ul", { className: "links" }, ...links)] : []),
      make("ul", { className: "notes" }, ...notes.map((note) => make("li", { textContent: note }))),
    );
    this.views = await Promise.all(figures.map(([spec, figure]) => draw(spec, figure)));
  }
}

/** The picture of all series, and what can be chosen in it. */
class Frontier extends Panel {
  /** Rows of the form that the series belong to. @type {number[]} */
  rows = [];

  /** Ask for the frontiers of some rows of the form in one picture. @param {number[]} rows */
  async compare(rows) {
    const all = series();
    const names = labels(rows.map((row) => all[row]));
    const texts = rows.map((row, index) => {
      const settings = Object.entries(all[row]).filter(([, value]) => value);
      return `${names[index]}: ${settings.map(([name, value]) => `${name}=${value}`).join(", ")}`;
    });
    this.rows = rows;
    await this.ask({ ...shared(this.question), series: texts });
  }

  /** Say beside rows what is wrong with them, and show the others. @param {Refused} error */
  async refuse(error) {
    super.refuse(error);
    if (controlOf(error.field, 0) || !byId("lost").hidden) return;
    const rows = this.rows;
    const each = rows.map((row) => fetched(address("frontier", { ...shared("frontier"), ...ownFields("frontier", row) })));
    const wrong = (await Promise.allSettled(each)).map((result) => (result.status === "rejected" ? result.reason : null));
    const well = rows.filter((_, index) => !wrong[index]);
    if (well.length && well.length < rows.length) await this.compare(well);
    wrong.forEach((reason, index) => reason && this.blame(rows[index], reason));
  }

  /** @param {number} row @param {Refused} error */
  blame(row, error) {
    const control = controlOf(error.field, row) ?? controlOf("hardware", row);
    if (control) complain(control, error.message, this.name);
  }

  /** @param {Answer} answer @param {Fields} fields */
  async show(answer, fields) {
    await super.show(answer, fields);
    this.series.forEach(({ reason }, index) => reason && this.blame(this.rows[index], new Refused(reason, null)));
    for (const view of this.views)
      view.addEventListener("click", (/** @type {Event} */ _, /** @type {any} */ item) => this.clicked(item?.datum));
    const speeds = this.series.flatMap(({ points }) => points.map(speedOf));
    [slider.min, slider.max] = [Math.min(...speeds), Math.max(...speeds)].map(String);
    if (!slider.dataset.set) slider.value = String(speedOf(this.series[this.rows.indexOf(chosen())]?.preferred ?? {}));
    byId("status").textContent = `${this.series.length} series, ${speeds.length} deployments that nothing beats.`;
  }

  /** @returns {Series[]} */
  get series() {
    return this.answer?.answer?.series ?? [];
  }

  /** Choose the point of a picture that somebody clicked. @param {any} datum */
  clicked(datum) {
    const index = this.series.findIndex(({ label }) => label === datum?.series);
    if (index < 0) return;
    byId("chosen").value = String(this.rows[index]);
    slider.value = String(datum.x);
    changed();
  }
}

/** @param {Point} point */
const speedOf = (point) => point.tokens_per_second_per_user;

/** What a row of the form sets of a question. @param {string} question @param {number} row */
const ownFields = (question, row) =>
  known(question, Object.fromEntries(Object.entries(series()[row]).map(([name, value]) => [name, [value]])));

/** @param {number} value */
const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

/** The degrees of a deployment that are more than one. @param {Point} point */
const layoutOf = (point) => DEGREES.filter((name) => point.layout[name] > 1).map((name) => `${name}${point.layout[name]}`).join(" ") || "1 GPU";

/** @type {HTMLInputElement} */
const slider = byId("speed");
const sections = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-panel]"));
const [frontier, ...others] = [...sections].map((section, index) => (index ? new Panel(section) : new Frontier(section)));

/** The row of the form whose deployment is looked at. */
const chosen = () => Math.min(Number(byId("chosen").value) || 0, series().length - 1);

/** The cheapest deployment of each series that is as fast as the slider says or faster. @returns {(Point | undefined)[]} */
const picks = () => frontier.series.map(({ points }) => points.find((point) => speedOf(point) >= Number(slider.value) * (1 - 1e-6)));

/** The bars of all series at one speed, and which of them is looked at. */
function bars() {
  const points = picks();
  const dollars = (/** @type {Point} */ point, end = "") => point[`dollars_per_million_output_tokens${end}`] ?? point.dollars_per_million_output_tokens;
  const most = Math.max(...points.map((point) => (point ? dollars(point, "_high") : 0)));
  const head = ["Series", "$ per million output tokens", "TTFT", "GPUs", "Layout", "In flight"].map((name) => make("th", { scope: "col", textContent: name }));
  const lines = frontier.series.map(({ label }, index) => {
    const row = frontier.rows[index];
    const point = points[index];
    const radio = make("input", { type: "radio", name: "pick", value: row, checked: row === chosen() });
    const name = make("th", { scope: "row" }, make("label", {}, radio, label));
    if (!point) return make("tr", {}, name, make("td", { colSpan: 5, textContent: "not that fast" }));
    const bar = make("span", { className: "bar" }, make("span", {}));
    bar.style.width = `${(100 * dollars(point, "_high")) / most}%`;
    bar.firstChild.style.width = `${(100 * dollars(point)) / dollars(point, "_high")}%`;
    const cost = make("td", {}, `${digits(dollars(point))} (${digits(dollars(point, "_low"))} to ${digits(dollars(point, "_high"))})`, bar);
    const cells = [`${digits(1000 * point.ttft_seconds)} ms`, digits(point.accelerators), layoutOf(point), digits(point.concurrency)];
    return make("tr", {}, name, cost, ...cells.map((textContent) => make("td", { textContent })));
  });
  byId("bars").tBodies[0]?.remove();
  byId("bars").tHead?.remove();
  byId("bars").append(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
  byId("at").textContent = digits(Number(slider.value));
}

/** Ask about the chosen deployment what the panels below ask. */
function look() {
  bars();
  const index = frontier.rows.indexOf(chosen());
  const point = picks()[index];
  byId("chosen-said").textContent = point
    ? `${frontier.series[index].label}: ${layoutOf(point)} on ${digits(point.accelerators)} GPUs, ${digits(point.concurrency)} requests in flight, ${digits(speedOf(point))} tokens/s per user.`
    : "No deployment of this series is that fast: move the slider, or choose another series.";
  if (!point) return;
  const engine = (series()[chosen()].engine || point.layout.engine || "").split(/[@,]/)[0];
  const layout = Object.fromEntries(DEGREES.map((name) => [name, [String(point.layout[name] ?? "")]]));
  const fields = { ...layout, batch: [String(point.batch)], to: [facts.engines.includes(engine) ? engine : facts.engines[0]] };
  for (const panel of others)
    panel.ask({ ...shared(panel.question), ...ownFields(panel.question, chosen()), ...known(panel.question, fields) });
}

/** Answer all that is asked anew, and keep the state in the address. */
async function changed(push = true) {
  if (push && `?${state()}` !== location.search) history.pushState(null, "", `?${state()}`);
  await frontier.compare(series().map((_, row) => row));
  if (frontier.answer) look();
}

/** Number the series, and offer what can be done with so many. */
function number() {
  const all = [...form.querySelectorAll(".series")];
  all.forEach((row, index) => {
    /** @type {any} */ (row.querySelector("legend")).textContent = `Series ${index + 1}`;
    const remove = /** @type {HTMLButtonElement} */ (row.querySelector(".remove"));
    remove.textContent = `Remove series ${index + 1}`;
    remove.hidden = all.length === 1;
  });
  byId("add").disabled = all.length >= facts.most_series;
}

byId("add").addEventListener("click", () => {
  const last = form.querySelectorAll(".series")[series().length - 1];
  const copy = /** @type {HTMLElement} */ (last.cloneNode(true));
  for (const error of copy.querySelectorAll(".error")) error.remove();
  last.after(copy);
  SERIES.forEach((name, index) => (/** @type {any} */ (copy.querySelector(`[name=${name}]`)).value = Object.values(series()[series().length - 2])[index]));
  number();
  /** @type {HTMLElement} */ (copy.querySelector("[name=hardware]")).focus();
});
form.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target);
  if (!button.matches(".remove")) return;
  button.closest(".series")?.remove();
  number();
  byId("add").focus();
  changed();
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => changed());
slider.addEventListener("input", () => {
  slider.dataset.set = "by hand";
  look();
});
slider.addEventListener("change", () => changed());
byId("bars").addEventListener("change", (/** @type {any} */ event) => {
  byId("chosen").value = event.target.value;
  changed();
});
dark.addEventListener("change", () => location.reload());
addEventListener("popstate", () => location.reload());
number();
changed(false);
