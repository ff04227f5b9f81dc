// @ts-check
"use strict";
(() => {
  /**
   * @typedef {Record<string, any>} Spec Vega-Lite, or a part of it.
   * @typedef {{price: number, use: number, cached: number}} Factors Price over that of the answer; hours in use and
   *   input cached, as shares.
   */
  const library = /** @type {any} */ (window);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");

  /** @type {<T extends Element>(root: ParentNode, selector: string) => T[]} */
  const all = (root, selector) => [...root.querySelectorAll(selector)].map((found) => /** @type {any} */ (found));

  /** Dollars per million tokens with three digits, cents from ten on; bills per hour with cents. @param {number} value @param {string} per */
  const written = (value, per) =>
    per === "hour"
      ? value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })
      : value >= 10 ? value.toFixed(2) : value.toPrecision(3);

  /** By what an amount is multiplied. @param {Factors} factors @param {string | undefined} per */
  const factor = (factors, per) => (per === "hour" ? factors.price : factors.price / factors.use);

  /** @param {HTMLElement} article @returns {Factors} */
  function chosen(article) {
    /** @type {Factors} */
    const factors = { price: 1, use: 1, cached: NaN };
    for (const input of all(article, 'input[type="number"]')) {
      const box = /** @type {HTMLInputElement} */ (input);
      const value = box.validity.valid && box.valueAsNumber > 0 ? box.valueAsNumber : Number(box.dataset.base);
      if (box.dataset.slider === "use") factors.use = value / 100;
      else if (box.dataset.slider === "cached") factors.cached = (box.validity.valid ? box.valueAsNumber : value) / 100;
      else factors.price = value / Number(box.dataset.base);
    }
    return factors;
  }

  /** Write every amount of a question anew, and draw its charts. @param {HTMLElement} article */
  function rescale(article) {
    const factors = chosen(article);
    for (const amount of /** @type {HTMLDataElement[]} */ (all(article, "data.amount"))) {
      amount.textContent = written(Number(amount.value) * factor(factors, amount.dataset.per), amount.dataset.per ?? "");
    }
    const changed = factors.price !== 1 || factors.use !== 1;
    article.classList.toggle("changed", changed);
    for (const said of all(article, ".moved span")) {
      said.textContent = changed ? "Amounts that have moved are marked; headings and notes stay as answered." : "";
    }
    for (const place of /** @type {HTMLElement[]} */ (all(article, ".mix"))) mix(place, factors);
    for (const figure of /** @type {HTMLElement[]} */ (all(article, ".chart"))) draw(figure, factors);
  }

  /** What input costs on average, and a thousand requests. @param {HTMLElement} place @param {Factors} factors */
  function mix(place, factors) {
    const costs = JSON.parse(place.dataset.mix ?? "{}");
    const input = costs.input * (1 - factors.cached) + costs.cached_input * factors.cached;
    const totals = { input, requests: (input * costs.isl + costs.output * costs.osl) / 1e3 };
    for (const [name, value] of Object.entries(totals)) {
      for (const out of all(place, `[data-of="${name}"]`)) out.textContent = written(value * factor(factors, "tokens"), "tokens");
    }
  }

  /** @param {HTMLElement} figure @param {Factors} factors @param {boolean} [print] */
  function specification(figure, factors, print = false) {
    /** @type {Spec} */
    const spec = JSON.parse(figure.querySelector("script")?.textContent ?? "{}");
    scale(spec, factor(factors, "tokens"));
    const themes = JSON.parse(document.getElementById("themes")?.textContent ?? "{}");
    spec.config = structuredClone(dark.matches && !print ? themes.dark : themes.light);
    if (narrow.matches && !print) fit(spec, figure.clientWidth);
    return spec;
  }

  /** Charts of a width, one below the other. @param {Spec} spec @param {number} width [pixels] */
  function fit(spec, width) {
    spec.config.legend = { ...spec.config.legend, columns: 1, labelLimit: width - 60 };
    for (const panel of [spec, ...(spec.concat ?? spec.hconcat ?? spec.vconcat ?? [])]) {
      if (panel.width) panel.width = Math.min(panel.width, width - 80);
    }
    if (spec.concat) spec.columns = 1;
    if (spec.hconcat) [spec.vconcat, spec.hconcat] = [spec.hconcat, undefined];
  }

  /** @param {HTMLElement} figure @param {Factors} factors */
  function draw(figure, factors) {
    const place = figure.querySelector(".drawing");
    const options = { actions: false, renderer: "svg" };
    library.vegaEmbed(place, specification(figure, factors), options).catch((/** @type {Error} */ error) => {
      if (place) place.textContent = `The chart cannot be drawn: ${error.message}`;
    });
  }

  /** Sort rows by a column; again the other way round. @param {HTMLElement} button */
  function sort(button) {
    const head = /** @type {HTMLTableCellElement} */ (button.closest("th"));
    const body = /** @type {HTMLTableElement} */ (head.closest("table")).tBodies[0];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    /** @param {HTMLTableRowElement} row */
    const key = (row) => {
      const text = row.cells[head.cellIndex].textContent ?? "";
      return { text, number: parseFloat(text.replace(/[,$<>~ ]/g, "")) };
    };
    const rows = [...body.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (Number.isNaN(a.number) || Number.isNaN(b.number)) {
        return Number(Number.isNaN(a.number)) - Number(Number.isNaN(b.number)) || sign * a.text.localeCompare(b.text);
      }
      return sign * (a.number - b.number);
    });
    for (const other of all(head.closest("tr") ?? document, "th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...rows);
  }

  /** Copy what a button stands beside: a table as text between tabs. @param {HTMLElement} button */
  function copy(button) {
    const table = button.closest("figure")?.querySelector("table");
    const block = button.closest("h2, p")?.nextElementSibling;
    const text = table
      ? [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent?.trim()).join("\t")).join("\n")
      : block?.textContent ?? "";
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Cannot copy";
    area.remove();
    button.focus();
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }

  const articles = /** @type {HTMLElement[]} */ (all(document, "article"));
  const redraw = () => articles.forEach(rescale);
  for (const article of articles) {
    article.addEventListener("input", (event) => {
      const moved = /** @type {HTMLInputElement} */ (event.target);
      for (const twin of /** @type {HTMLInputElement[]} */ (all(article, `[data-slider="${moved.dataset.slider}"]`))) {
        if (twin !== moved) twin.value = moved.value;
      }
      rescale(article);
    });
    article.addEventListener("reset", () => setTimeout(() => rescale(article)));
    article.addEventListener("submit", (event) => event.preventDefault());
  }
  document.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest("button");
    if (button?.classList.contains("sort")) sort(button);
    if (button?.classList.contains("copy")) copy(button);
  });
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  redraw();
})();
