// @ts-check
/**
 * The page of the explorer: one form whose state is the address, panels that ask one question of the API each, and the
 * choice of one deployment among the points of all series. All numbers come from the server, and so do the
 * specifications of pictures, which Vega draws.
 */

/**
 * A deployment: tokens/s of a user, what is drawn against it, USD per million output tokens with their ends, what a
 * table says of it, and what panels ask of it.
 * @typedef {{speed: number, y: number, dollars: number, low: number, high: number, cells: string[], at: object}} Point
 */
/** @typedef {{label: string, points: Point[], first: number | null, price: number, reason: string}} Series */
/** @typedef {{html: string, charts: object, series: Series[], runs: {speed: number, rate: number}[]}} Answer */

/** What the server refuses, with the option that caused it. */
class Refused extends Error {
  /** @param {string} message @param {string | null} field */
  constructor(message, field) {
    super(worded(message));
    this.field = field;
  }
}

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);
/** @type {{light: any, dark: any}} */
const themes = JSON.parse(byId("themes").textContent);
const form = byId("question");
const slider = byId("speed");
const dark = matchMedia("(prefers-color-scheme: dark)");
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
const fieldsets = () => [...form.querySelectorAll(".series:enabled")];
/** The series whose deployment is looked at. */
const chosen = () => Math.min(Number(byId("chosen").value) || 0, fieldsets().length - 1);

/** The state of all controls as a readable query, without what is empty. @param {boolean} picked  and what is chosen */
function state(picked) {
  const all = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  all.set("speed", slider.dataset.set ? String(Number(Number(slider.value).toPrecision(4))) : "");
  for (const name of new Set(all.keys())) if (!all.getAll(name).join("")) all.delete(name);
  if (!picked) for (const name of ["speed", "chosen"]) all.delete(name);
  return `?${all}`;
}

/** What is asked about series, and of a deployment. @param {string} question @param {number[]} rows @param {object} at */
function address(question, rows, at) {
  const pairs = Object.entries(at).map(([name, value]) => [`at.${name}`, value]);
  return `/view/${question}${state(false)}&${new URLSearchParams([...rows.map((row) => ["row", `${row}`]), ...pairs])}`;
}

/** What the server replies. @param {string} url @param {RequestInit} [how] @returns {Promise<any>} */
async function fetched(url, how) {
  const reply = await fetch(url, how).catch(() => null);
  byId("lost").textContent = reply ? "" : byId("lost").dataset.text;
  if (!reply) throw new Refused("The server did not respond.", null);
  const problem = { error: { message: `The server returned status ${reply.status}.`, field: null } };
  const content = await reply.json().catch(() => problem);
  if (reply.ok && content !== problem) return content;
  throw new Refused(content.error.message, content.error.field);
}

/** The control of an option, of a series or of all. @param {string | null} field @param {number} row @returns {any} */
function controlOf(field, row) {
  const selector = `[name="${field}"], [data-options~="${field}"]`;
  const shared = [...document.querySelectorAll(selector)].find((control) => !control.closest(".series"));
  return fieldsets()[row]?.querySelector(selector) ?? shared;
}

/** A message in words of the page: options are called as their controls. @param {string} message */
const worded = (message) =>
  message.replace(/--([a-z-]+)/g, (option, name) => {
    const label = controlOf(name.replaceAll("-", "_"), chosen())?.closest("label")?.firstChild.textContent.trim();
    return label ? `'${label}'` : `the command line option ${option}`;
  });

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

/** Draw a picture as wide as its place, in the reader's theme. @param {any} whole @param {HTMLElement} place */
async function draw(whole, place) {
  const width = Math.max(240, place.clientWidth - parseFloat(getComputedStyle(place).paddingRight) - 4);
  const theme = structuredClone(dark.matches ? themes.dark : themes.light);
  const spec = structuredClone(whole);
  if (width < 640) /** @type {any} */ (window).foldLegends(spec, theme, width);
  const panels = /** @type {any[] | undefined} */ (spec.concat);
  const across = width < 640 ? 1 : (panels?.length ?? 1);
  const sized = panels
    ? { ...spec, columns: across, concat: panels.map((each) => ({ ...each, width: width / across - 75 })) }
    : { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
  const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg", logLevel: 1 };
  const drawn = { ...sized, title: undefined, config: theme };
  const embedded = { ...options, tooltip: { disableDefaultStyle: true } };
  return (await /** @type {any} */ (window).vegaEmbed(place, drawn, embedded)).view;
}

/** A part of the page that asks one question and shows the answer. */
class Panel {
  /** @type {Answer | null} */ answer = null;
  /** @type {any[]} */ views = [];
  shown = ""; // the address of what is shown, and of what shall be
  wanted = "";
  running = false;

  /** @param {HTMLElement} section */
  constructor(section) {
    this.question = /** @type {string} */ (section.dataset.question);
    this.place = /** @type {HTMLElement} */ (section.querySelector(".answer"));
  }

  /** Ask, unless that is shown; while an answer is awaited, only the last question waits. @param {string} wanted */
  async ask(wanted) {
    this.wanted = wanted;
    if (this.running) return;
    this.running = true;
    this.place.classList.add("waiting");
    for (let url = ""; url !== this.wanted && this.shown !== this.wanted; ) {
      url = this.wanted;
      this.begin();
      const result = await fetched(url).catch((/** @type {Refused} */ error) => error);
      if (url !== this.wanted) continue;
      forgive(this.question);
      this.shown = result instanceof Refused ? "" : url;
      await (result instanceof Refused ? this.refuse(result) : this.show(result));
    }
    this.place.classList.remove("waiting");
    this.running = false;
  }

  /** @param {Refused} error */
  async refuse(error) {
    const control = controlOf(error.field, chosen()) ?? this.place.parentElement?.querySelector("textarea");
    if (control) complain(control, error.message, this.question);
    [this.answer, this.views] = [null, []];
    this.place.replaceChildren(make("p", { className: "error" }, control ? "No result: correct the marked setting." : error.message));
    if (control || this instanceof Frontier) byId("status").textContent = control ? "No result: correct the marked setting." : error.message;
  }

  begin() {} // before the question is sent

  /** A picture as it is drawn. @param {any} spec */
  prepared(spec) {
    return spec;
  }

  /** @param {Answer} answer */
  async show(answer) {
    this.answer = answer;
    this.place.innerHTML = answer.html;
    const figures = /** @type {HTMLElement[]} */ ([...this.place.querySelectorAll("[data-chart]")]);
    const specs = Object.values(answer.charts).map((spec) => this.prepared(spec));
    this.views = await Promise.all(specs.map((spec, index) => draw(spec, figures[index])));
  }
}

/** The picture of all series, and what can be chosen in it. */
class Frontier extends Panel {
  /** The series of the form that are shown. @type {number[]} */
  rows = [];

  begin() { byId("status").textContent = "Computing ..."; }

  /** @returns {Series[]} */
  get series() {
    return this.answer?.series ?? [];
  }

  /** With rings and crosses, whose places the view is told later. @param {any} spec */
  prepared(spec) {
    const { x, y } = spec.layer[0].encoding;
    const style = { type: "point", aria: false, size: 150, strokeWidth: 2.5, filled: false, style: "whole" };
    const marks = [["rings", "circle"], ["runs", "cross"]].map(([name, shape]) => {
      return { data: { name, values: [] }, mark: { ...style, shape }, encoding: { x, y } };
    });
    return { ...spec, layer: [...spec.layer, ...marks] };
  }

  /** Ask for the frontiers of some series of the form. @param {number[]} rows */
  async compare(rows) {
    this.rows = rows;
    await this.ask(address(this.question, rows, {}));
  }

  /** Say beside series what is wrong with them, and ask for the others. @param {Refused} error */
  async refuse(error) {
    if (controlOf(error.field, -1) || byId("lost").textContent) return super.refuse(error);
    const rows = this.rows;
    const alone = rows.map((row) => fetched(address("frontier", [row], {})));
    const wrong = (await Promise.allSettled(alone)).map((each) => (each.status === "rejected" ? each.reason : null));
    for (const [index, reason] of wrong.entries()) if (reason) this.blame(rows[index], reason);
    const well = rows.filter((_, index) => !wrong[index]);
    if (well.length && well.length < rows.length) return this.compare(well);
    return super.refuse(new Refused(error.message, null));
  }

  /** @param {number} row @param {Refused} error */
  blame(row, error) {
    const control = controlOf(error.field, row) ?? controlOf("model", row);
    if (control) complain(control, error.message, "series");
  }

  /** @param {Answer} answer */
  async show(answer) {
    await super.show(answer);
    for (const [index, { reason }] of this.series.entries())
      if (reason) this.blame(this.rows[index], new Refused(reason, null));
    const speeds = this.series.flatMap(({ points }) => points.map(({ speed }) => speed));
    [slider.min, slider.max] = [String(Math.min(...speeds)), String(Math.max(...speeds))];
    const first = (this.series[this.rows.indexOf(chosen())] ?? this.series[0]).first;
    if (!slider.dataset.set && first) slider.value = String(first);
    byId("status").textContent = `${this.series.length} series, ${speeds.length} deployments on the Pareto frontier.`;
    for (const view of this.views)
      view.addEventListener("click", (/** @type {Event} */ _, /** @type {any} */ item) => this.clicked(item?.datum?.datum ?? item?.datum));
  }

  /** Choose what somebody clicked, if it is a deployment. @param {any} datum */
  clicked(datum) {
    const is = (/** @type {number} */ a, /** @type {number} */ b) => Math.abs(a / b - 1) < 1e-5; // pictures round
    const at = (/** @type {Point} */ { speed, y }) => is(speed, datum?.x) && is(y, datum?.y);
    const index = this.series.findIndex(({ points }) => points.some(at));
    if (index < 0) return;
    byId("chosen").value = this.rows[index];
    slider.value = datum.x;
    slider.dispatchEvent(new Event("change"));
  }

  /** The cheapest deployment of each series that is as fast as the slider says or faster. */
  picks() {
    const least = Number(slider.value) * (1 - 1e-3);
    return this.series.map(({ points }) => points.find(({ speed }) => speed >= least));
  }

  /** Bars of all series at one speed, with what is looked at among them, and rings in the picture. */
  bars() {
    const points = this.picks();
    const most = Math.max(...points.map((point) => point?.high ?? 0));
    const lines = this.series.map(({ label }, index) => {
      const [point, row] = [points[index], this.rows[index]];
      const radio = make("input", { type: "radio", name: "pick", value: row, checked: row === chosen() });
      const name = make("label", {}, radio, label);
      if (!point) return line([name, "slower than this speed"]);
      const bar = make("span", { className: "bar" }, make("span", {}));
      bar.style.width = `${(100 * point.high) / most}%`;
      bar.firstChild.style.width = `${(100 * point.dollars) / point.high}%`;
      const [cost, low, high] = [point.dollars, point.low, point.high].map(digits);
      return line([name, make("div", {}, `${cost} (${low} to ${high})`, bar), ...point.cells]);
    });
    byId("bars").replaceChildren(...lines);
    byId("at").textContent = digits(Number(slider.value));
    const rings = points.flatMap((point) => (point ? [{ x: point.speed, y: point.y }] : []));
    const price = this.series[this.rows.indexOf(chosen())]?.price;
    // What was measured has a cost, and is drawn where costs are.
    const drawn = form.elements.y.value ? [] : (measured.answer?.runs ?? []);
    const runs = drawn.map(({ speed, rate }) => ({ x: speed, y: (price / 3600 / rate) * 1e6 }));
    this.views[0]?.data("rings", rings).data("runs", runs).runAsync();
  }

  /** The deployment that is looked at. */
  pick() {
    return this.picks()[this.rows.indexOf(chosen())];
  }
}

const sections = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-question]"));
const frontier = new Frontier(sections[0]);
const others = [...sections].slice(1, -1).map((section) => new Panel(section));
const measured = new Panel(sections[sections.length - 1]);

/** Ask about the chosen deployment what the panels below ask; last what is simulated step by step and takes a second. */
async function look() {
  frontier.bars();
  const point = frontier.pick();
  const [, gpus, layout, users] = point?.cells ?? [];
  byId("chosen-said").textContent = point
    ? `${layout} on ${gpus} GPU${gpus === "1" ? "" : "s"}: ${users} concurrent requests, ${digits(point.speed)} tokens/s per user.`
    : "No deployment of this series reaches this speed. Move the slider, or select another series.";
  if (!point) return;
  const ask = (/** @type {Panel} */ panel) => panel.ask(address(panel.question, [chosen()], point.at));
  await Promise.all(others.slice(0, -1).map(ask));
  if (point === frontier.pick()) ask(others[others.length - 1]);
}

/** Keep the state in the address, and answer what it asks. */
async function changed() {
  if (state(true) !== location.search) history.pushState(null, "", state(true));
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
  const last = fieldsets().at(-1).querySelectorAll("select");
  const spare = form.querySelector(".series:disabled");
  hide(spare, false);
  const controls = /** @type {HTMLSelectElement[]} */ ([...spare.querySelectorAll("select")]);
  for (const [index, control] of controls.entries()) control.value = last[index].value;
  controls[1].focus();
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
byId("paste").addEventListener("click", async () => {
  forgive("pasted");
  const body = byId("pasted").value;
  const kept = await fetched("/api/v1/texts", { method: "POST", body }).catch((error) => error);
  if (kept instanceof Refused) return complain(byId("pasted"), kept.message, "pasted");
  if (!/"(model_type|architectures)"/.test(body)) {
    await measured.ask(address("validate", [chosen()], { ...frontier.pick()?.at, file: kept.name }));
    return frontier.bars();
  }
  controlOf("model", chosen()).add(new Option(kept.name, kept.name, false, true));
  changed();
});
form.addEventListener("change", (/** @type {any} */ { target }) => {
  // Formats are those of a model: another one begins as it is published.
  if (target.name === "model")
    for (const name of ["weights", "kv"]) target.closest(".series").querySelector(`[name=${name}]`).value = "";
  changed();
});
slider.addEventListener("input", () => frontier.answer && frontier.bars());
slider.addEventListener("change", () => {
  slider.dataset.set = "by hand";
  changed();
});
byId("bars").addEventListener("change", (/** @type {any} */ { target }) => {
  byId("chosen").value = target.value;
  changed();
});
addEventListener("popstate", () => location.search !== state(true) && location.reload());
dark.onchange = () => location.reload();
for (const help of document.querySelectorAll(".help")) help.textContent = worded(help.textContent ?? "");
changed();
