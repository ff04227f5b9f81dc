// @ts-check
/**
 * The page of the explorer: one form whose state is the address, panels that ask one question of the API each, and the
 * choice of one deployment among the points of all series. All numbers come from the server, and so do the
 * specifications of pictures, which Vega draws.
 */

/** @typedef {Record<string, string[]>} Fields  options of a question, as texts */
/** @typedef {Record<string, any>} Point  one deployment of a series, as the answer has it */
/** @typedef {{label: string, points: Point[], preferred?: Point, reason?: string}} Series */
/** @typedef {{html: string, charts: Record<string, any>, series: Series[]}} Answer */
/** @typedef {{questions: Record<string, string[]>, themes: Record<string, any>, engines: string[]}} Facts */

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
/** @type {HTMLInputElement} */
const slider = byId("speed");
const dark = matchMedia("(prefers-color-scheme: dark)");
const SHARED = ["isl", "osl", "request_rate", "ttft", "tpot", "percentile", "price"];
const OWN = ["model", "hardware", "weights", "kv", "engine"];
const DEGREES = ["tp", "dp", "pp", "ep"];

/** @param {string} tag @param {Record<string, any>} properties @param {(Node | string)[]} children @returns {any} */
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A row of a table. @param {any[]} cells */
const line = (cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
/** @param {number} value */
const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
/** @param {Point} point */
const speedOf = (point) => point.tokens_per_second_per_user;
/** @param {Point} point @param {"" | "_low" | "_high"} end */
const dollarsOf = (point, end = "") =>
  point[`dollars_per_million_output_tokens${end}`] ?? point.dollars_per_million_output_tokens;
/** @param {Point} point */
const layoutOf = ({ layout }) =>
  DEGREES.flatMap((name) => (layout[name] > 1 ? [`${name}${layout[name]}`] : [])).join(" ") || "tp1";

/** @returns {HTMLFieldSetElement[]} */
const fieldsets = () => [...form.querySelectorAll(/** @type {any} */ (".series:enabled"))];
/** The settings of every series, by the names of options. */
const settings = () =>
  fieldsets().map((set) =>
    Object.fromEntries(OWN.map((name) => [name, /** @type {any} */ (set.querySelector(`[name=${name}]`)).value])),
  );
/** The series whose deployment is looked at. */
const chosen = () => Math.min(Number(byId("chosen").value) || 0, fieldsets().length - 1);

/** The state of all controls as a readable query; what is empty is left out. */
function state() {
  const all = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  all.set("speed", slider.dataset.set ? String(Number(Number(slider.value).toPrecision(4))) : "");
  for (const name of new Set(all.keys())) if (!all.getAll(name).join("")) all.delete(name);
  return `?${all}`;
}

/** Fields that a question has. @param {string} question @param {Fields} fields @returns {Fields} */
const known = (question, fields) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => facts.questions[question].includes(name)));

/** What controls that all series share set of a question. @param {string} question */
function shared(question) {
  const values = new FormData(form);
  const text = (/** @type {string} */ name) => String(values.get(name));
  const proposer = text("speculation");
  const fields = { ...Object.fromEntries(SHARED.map((name) => [name, [text(name)]])), set: text("set").split("\n") };
  return known(question, proposer ? { ...fields, [proposer]: ["true"], acceptance: [text("acceptance")] } : fields);
}

/** What a series of its own sets of a question. @param {string} question @param {number} row */
const own = (question, row) =>
  known(question, Object.fromEntries(Object.entries(settings()[row]).map(([name, value]) => [name, [value]])));

/** What is asked about one series. @param {string} question @param {number} row */
const asked = (question, row) => ({ ...shared(question), ...own(question, row) });

/** Labels that tell series apart. @param {Record<string, string>[]} all */
function labels(all) {
  const apart = OWN.filter((name) => new Set(all.map((each) => each[name])).size > 1);
  const parts = apart.length ? apart : ["model", "hardware"];
  const plain = all.map((each) => parts.map((name) => each[name] || `any ${name}`).join(", "));
  return plain.map((label, index) => (plain.indexOf(label) < index ? `${label} (${index + 1})` : label));
}

/** The address of an answer, with what is not empty. @param {string} question @param {Fields} fields @param {string} form */
function address(question, fields, form) {
  const pairs = Object.entries(fields).flatMap(([name, values]) => values.map((value) => [name, value.trim()]));
  return `/api/v1/${question}.${form}?${new URLSearchParams(pairs.filter(([, value]) => value))}`;
}

/** What the server replies. @param {string} url @param {RequestInit} [how] @returns {Promise<any>} */
async function fetched(url, how) {
  const reply = await fetch(url, how).catch(() => null);
  const lost = byId("lost");
  lost.textContent = reply ? "" : lost.dataset.text;
  lost.hidden = reply !== null;
  if (!reply) throw new Refused("No answer from the server.", null);
  const problem = { error: { message: `The server replied ${reply.status}.`, field: null } };
  const content = await reply.json().catch(() => problem);
  if (reply.ok && content !== problem) return content;
  throw new Refused(content.error.message, content.error.field);
}

/** The control of an option: that of a series if each has its own. @param {string | null} field @param {number} row */
function controlOf(field, row) {
  const selector = `[name="${field}"], [data-options~="${field}"]`;
  return ([...OWN, "to"].includes(String(field)) ? fieldsets()[row] : form).querySelector(selector);
}

/** Say beside a control what is wrong. @param {Element} control @param {string} message @param {string} by  a panel */
function complain(control, message, by) {
  const id = `wrong-${by}-${document.querySelectorAll(".error").length}`;
  const error = make("p", { className: "error", id, textContent: message });
  error.dataset.by = by;
  (control.closest("label") ?? control).after(error);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", error.id);
}

/** Take back what a panel said beside controls. @param {string} by */
function forgive(by) {
  for (const error of document.querySelectorAll(`.error[data-by="${by}"]`)) {
    const control = document.querySelector(`[aria-describedby="${error.id}"]`);
    for (const name of ["aria-invalid", "aria-describedby"]) control?.removeAttribute(name);
    error.remove();
  }
}

/** A picture with rings, whose places the view is told later. @param {any} spec */
function ringed(spec) {
  const { x, y } = spec.layer[0].encoding;
  const mark = { type: "point", size: 150, strokeWidth: 2.5, filled: false, style: "whole" };
  return { ...spec, layer: [...spec.layer, { data: { name: "rings", values: [] }, mark, encoding: { x, y } }] };
}

/** Draw a picture as wide as its place, in the reader's theme. @param {any} spec @param {HTMLElement} place */
async function draw(spec, place) {
  const width = Math.max(260, place.clientWidth - 4);
  /** @type {any[] | undefined} */
  const panels = spec.concat;
  const across = width < 640 ? 1 : panels?.length;
  const theme = structuredClone(facts.themes[dark.matches ? "dark" : "light"]);
  if (width < 640) theme.legend = { ...theme.legend, columns: 1, labelLimit: width - 60 };
  const sized = panels
    ? { ...spec, columns: across, concat: panels.map((each) => ({ ...each, width: width / across - 75 })) }
    : { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
  const plain = { ast: true, actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
  const options = { ...plain, renderer: "svg", logLevel: 1 };
  const drawn = { ...sized, title: undefined, config: theme };
  return (await /** @type {any} */ (window).vegaEmbed(place, drawn, options)).view;
}

/** A part of the page that asks one question and shows the answer. */
class Panel {
  /** @type {Answer | null} */ answer = null;
  /** @type {any[]} */ views = [];
  /** Addresses of what is shown and of what shall be. */
  shown = "";
  wanted = "";
  running = false;

  /** @param {HTMLElement} section */
  constructor(section) {
    this.name = /** @type {string} */ (section.dataset.panel);
    this.question = /** @type {string} */ (section.dataset.question);
    this.place = /** @type {HTMLElement} */ (section.querySelector(".answer"));
  }

  /** Ask, unless that is shown; while an answer is awaited, only the last question waits. @param {Fields} fields */
  async ask(fields) {
    this.wanted = address(this.question, fields, "view");
    if (this.running) return;
    this.running = true;
    this.place.classList.add("waiting");
    for (let url = ""; url !== this.wanted && this.shown !== this.wanted; ) {
      url = this.wanted;
      const result = await fetched(url).catch((/** @type {Refused} */ error) => error);
      if (url !== this.wanted) continue;
      forgive(this.name);
      this.shown = result instanceof Refused ? "" : url;
      await (result instanceof Refused ? this.refuse(result) : this.show(result));
    }
    this.place.classList.remove("waiting");
    this.running = false;
  }

  /** @param {Refused} error */
  async refuse(error) {
    const control = controlOf(error.field, chosen());
    if (control) complain(control, error.message, this.name);
    this.answer = null;
    this.views = [];
    const said = control ? "Not answered: see what is marked among the controls." : error.message;
    this.place.replaceChildren(make("p", { className: control ? "help" : "error" }, said));
    byId("status").textContent = error.message;
  }

  /** @param {Answer} answer */
  async show(answer) {
    this.answer = answer;
    this.place.innerHTML = answer.html;
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (this.place.querySelectorAll("[data-form]")))
      link.href = this.shown.replace(".view?", `.${link.dataset.form}?`);
    const figures = /** @type {HTMLElement[]} */ ([...this.place.querySelectorAll("[data-chart]")]);
    const specs = Object.values(answer.charts).map((spec) => (this === frontier && spec.layer ? ringed(spec) : spec));
    this.views = await Promise.all(specs.map((spec, index) => draw(spec, figures[index])));
  }
}

/** The picture of all series, and what can be chosen in it. */
class Frontier extends Panel {
  /** The series of the form that are shown. @type {number[]} */
  rows = [];

  /** @returns {Series[]} */
  get series() {
    return this.answer?.series ?? [];
  }

  /** Ask for the frontiers of some series of the form. @param {number[]} rows */
  async compare(rows) {
    const all = rows.map((row) => settings()[row]);
    const texts = labels(all).map((label, index) => {
      const said = Object.entries(all[index]).flatMap(([name, value]) => (value ? [`${name}=${value}`] : []));
      return `${label}: ${said.join(", ")}`;
    });
    this.rows = rows;
    await this.ask({ ...shared(this.question), series: texts });
  }

  /** Say beside series what is wrong with them, and ask for the others. @param {Refused} error */
  async refuse(error) {
    await super.refuse(error);
    if (controlOf(error.field, 0) || !byId("lost").hidden) return;
    const rows = this.rows;
    const alone = rows.map((row) => fetched(address("frontier", asked("frontier", row), "json")));
    const wrong = (await Promise.allSettled(alone)).map((each) => (each.status === "rejected" ? each.reason : null));
    wrong.forEach((reason, index) => reason && this.blame(rows[index], reason));
    const well = rows.filter((_, index) => !wrong[index]);
    if (well.length && well.length < rows.length) this.compare(well);
  }

  /** @param {number} row @param {Refused} error */
  blame(row, error) {
    const control = controlOf(error.field, row) ?? controlOf("hardware", row);
    if (control) complain(control, error.message, "series");
  }

  /** @param {Answer} answer */
  async show(answer) {
    await super.show(answer);
    this.series.forEach(({ reason }, index) => reason && this.blame(this.rows[index], new Refused(reason, null)));
    const speeds = this.series.flatMap(({ points }) => points.map(speedOf));
    [slider.min, slider.max] = [String(Math.min(...speeds)), String(Math.max(...speeds))];
    const preferred = (this.series[this.rows.indexOf(chosen())] ?? this.series[0]).preferred;
    if (!slider.dataset.set && preferred) slider.value = String(speedOf(preferred));
    byId("status").textContent = `${this.series.length} series, ${speeds.length} deployments that nothing beats.`;
    for (const view of this.views)
      view.addEventListener("click", (/** @type {Event} */ _, /** @type {any} */ item) => this.clicked(item?.datum));
  }

  /** Choose what somebody clicked, if it is a deployment. @param {any} datum */
  clicked(datum) {
    const at = (/** @type {Point} */ point) => speedOf(point) === datum?.x && dollarsOf(point) === datum?.y;
    const index = this.series.findIndex(({ points }) => points.some(at));
    if (index < 0) return;
    byId("chosen").value = this.rows[index];
    choose(String(datum.x));
  }

  /** The cheapest deployment of each series that is as fast as the slider says or faster. */
  picks() {
    const least = Number(slider.value) * (1 - 1e-3);
    return this.series.map(({ points }) => points.find((point) => speedOf(point) >= least));
  }

  /** Bars of all series at one speed, with what is looked at among them, and rings in the picture. */
  bars() {
    const points = this.picks();
    const most = Math.max(...points.map((point) => (point ? dollarsOf(point, "_high") : 0)));
    const lines = this.series.map(({ label }, index) => {
      const [point, row] = [points[index], this.rows[index]];
      const radio = make("input", { type: "radio", name: "pick", value: row, checked: row === chosen() });
      const name = make("label", {}, radio, label);
      if (!point) return line([name, "not that fast"]);
      const bar = make("span", { className: "bar" }, make("span", {}));
      bar.style.width = `${(100 * dollarsOf(point, "_high")) / most}%`;
      bar.firstChild.style.width = `${(100 * dollarsOf(point)) / dollarsOf(point, "_high")}%`;
      const [cost, low, high] = [dollarsOf(point), dollarsOf(point, "_low"), dollarsOf(point, "_high")].map(digits);
      const bill = make("div", {}, `${cost} (${low} to ${high})`, bar);
      const ttft = `${digits(1000 * point.ttft_seconds)} ms`;
      return line([name, bill, ttft, digits(point.accelerators), layoutOf(point), digits(point.concurrency)]);
    });
    byId("bars").replaceChildren(...lines);
    byId("at").textContent = digits(Number(slider.value));
    const rings = points.flatMap((point) => (point ? [{ x: speedOf(point), y: dollarsOf(point) }] : []));
    this.views[0]?.data("rings", rings).runAsync();
    return points[this.rows.indexOf(chosen())];
  }
}

const sections = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-panel]"));
const frontier = new Frontier(sections[0]);
const others = [...sections].slice(1).map((section) => new Panel(section));

/** Ask about the chosen deployment what the panels below ask. */
function look() {
  const point = frontier.bars();
  byId("chosen-said").textContent = point
    ? `${layoutOf(point)}, ${digits(point.accelerators)} GPUs, ${digits(point.concurrency)} requests in flight, ` +
      `${digits(speedOf(point))} tokens/s per user.`
    : "No deployment of this series is that fast: move the slider, or choose another series.";
  if (!point) return;
  const groups = point.layout.dp * point.layout.pp;
  const batch = Math.max(1, Math.round(point.batch / groups)) * groups;
  const engine = (settings()[chosen()].engine || point.layout.engine || "").split(/[@,]/)[0];
  const to = facts.engines.includes(engine) ? engine : facts.engines[0];
  const layout = Object.fromEntries(DEGREES.map((name) => [name, [String(point.layout[name] ?? "")]]));
  const fields = { ...layout, batch: [String(batch)], to: [to] };
  for (const panel of others)
    panel.ask({ ...asked(panel.question, chosen()), ...known(panel.question, fields) });
}

/** Look at what another speed chooses. @param {string} speed */
function choose(speed) {
  slider.value = speed;
  slider.dataset.set = "by hand";
  changed();
}

/** Keep the state in the address, and answer what it asks. */
async function changed() {
  if (state() !== location.search) history.pushState(null, "", state());
  forgive("series");
  await frontier.compare(fieldsets().map((_, row) => row));
  if (frontier.answer) look();
}

/** Show or hide the controls of a series. @param {HTMLFieldSetElement} set @param {boolean} hidden */
function hide(set, hidden) {
  set.hidden = set.disabled = hidden;
  byId("add").disabled = fieldsets().length === form.querySelectorAll(".series").length;
}

byId("add").addEventListener("click", () => {
  const last = /** @type {HTMLFieldSetElement} */ (fieldsets().at(-1)).querySelectorAll("select");
  const spare = /** @type {HTMLFieldSetElement} */ (form.querySelector(".series:disabled"));
  hide(spare, false);
  spare.querySelectorAll("select").forEach((control, index) => (control.value = last[index].value));
  spare.querySelectorAll("select")[1].focus();
});
form.addEventListener("click", (/** @type {any} */ { target }) => {
  if (!target.matches(".remove")) return;
  hide(target.closest(".series"), true);
  byId("add").focus();
  changed();
});
document.addEventListener("click", (/** @type {any} */ { target }) => {
  if (target.matches(".copy")) navigator.clipboard.writeText(target.previousElementSibling.textContent);
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => changed());
slider.addEventListener("input", () => frontier.answer && frontier.bars());
slider.addEventListener("change", () => choose(slider.value));
byId("bars").addEventListener("change", (/** @type {any} */ { target }) => {
  byId("chosen").value = target.value;
  changed();
});
addEventListener("popstate", () => location.reload());
dark.addEventListener("change", () => location.reload());
changed();
