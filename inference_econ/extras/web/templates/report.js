// @ts-check
"use strict";
(() => {
  /** @typedef {Record<string, any>} Spec Vega-Lite, or a part of it. */
  /** @typedef {{price: number, use: number, cached: number}} Factors Price over the answer's; shares in use, cached. */
  const [dark, narrow] = ["(prefers-color-scheme: dark)", "(max-width: 40rem)"].map((query) => matchMedia(query));
  /** @type {<T extends Element>(root: ParentNode, selector: string) => T[]} */
  const all = (root, selector) => [...root.querySelectorAll(selector)].map((found) => /** @type {any} */ (found));
  const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  /** Three digits, or cents from ten on; bills with cents. @param {number} value @param {string | undefined} per */
  const written = (value, per) =>
    per === "hour" ? cents.format(value) : value >= 10 ? value.toFixed(2) : value.toPrecision(3);
  /** By what an amount is multiplied. @param {Factors} factors @param {string | undefined} per */
  const factor = (factors, per) => (per === "hour" ? factors.price : factors.price / factors.use);

  /** @param {HTMLElement} article @returns {Factors} */
  function chosen(article) {
    const factors = { price: 1, use: 1, cached: NaN };
    for (const box of /** @type {HTMLInputElement[]} */ (all(article, 'input[type="number"]'))) {
      const value = box.checkValidity() && box.value ? box.valueAsNumber : Number(box.dataset.base);
      if (box.dataset.slider === "use") factors.use = value / 100;
      else if (box.dataset.slider === "cached") factors.cached = value / 100;
      else factors.price = value / Number(box.dataset.base);
    }
    return factors;
  }

  /** Write every amount of a question anew, and draw its charts. @param {HTMLElement} article */
  function rescale(article) {
    const factors = chosen(article);
    for (const amount of /** @type {HTMLDataElement[]} */ (all(article, "data.amount"))) {
      const { per } = amount.dataset;
      amount.textContent = written(Number(amount.value) * factor(factors, per), per);
    }
    article.classList.toggle("changed", factors.price !== 1 || factors.use !== 1);
    all(article, ".mix").forEach((place) => mix(/** @type {HTMLElement} */ (place), factors));
    all(article, ".chart").forEach((figure) => draw(/** @type {HTMLElement} */ (figure), factors));
  }

  /** What input costs on average, and a thousand requests. @param {HTMLElement} place @param {Factors} factors */
  function mix(place, factors) {
    const costs = JSON.parse(place.dataset.mix ?? "{}");
    const input = costs.input * (1 - factors.cached) + costs.cached_input * factors.cached;
    const by = factor(factors, "tokens");
    const totals = [input, (input * costs.isl + costs.output * costs.osl) / 1e3];
    all(place, "output").forEach((output, index) => (output.textContent = written(totals[index] * by, "tokens")));
  }

  /** @param {HTMLElement} figure @param {Factors} factors */
  function specification(figure, factors) {
    const spec = JSON.parse(figure.querySelector("script")?.textContent ?? "{}");
    figure.classList.toggle("still", !scale(spec, factor(factors, "tokens")));
    const themes = JSON.parse(document.getElementById("themes")?.textContent ?? "{}");
    spec.config = structuredClone(dark.matches ? themes.dark : themes.light);
    fit(spec, Math.max(figure.clientWidth, 320));
    return spec;
  }

  /** Multiply axes and fields in dollars; whether there is such an axis. @param {Spec} spec @param {number} by */
  function scale(spec, by) {
    const billed = new Set();
    /** @param {Spec} view @param {Spec} [data] */
    const visit = (view, data = view.data) => {
      if (view.encoding?.y?.axis?.style === "dollars") billed.add(data?.name);
      for (const part of view.layer ?? view.concat ?? []) visit(part, part.data ?? data);
    };
    visit(spec);
    for (const [name, rows] of Object.entries(spec.datasets ?? {})) {
      for (const row of rows) {
        for (const field of Object.keys(row)) {
          const follows = field.startsWith("$/M") || (field === "y" && billed.has(name));
          if (follows && typeof row[field] === "number") row[field] *= by;
        }
      }
    }
    return billed.size > 0;
  }

  /** Charts as wide as there is room, one below the other on a phone. @param {Spec} spec @param {number} width */
  function fit(spec, width) {
    const room = Math.min(width - 80, 820);
    if (spec.width) spec.width = room;
    if (!narrow.matches) return;
    /** @type {any} */ (window).foldLegends(spec, spec.config, width);
    for (const panel of spec.concat ?? []) if (panel.width) panel.width = room;
    if (spec.concat) spec.columns = 1;
  }

  /** @param {HTMLElement} figure @param {Factors} factors */
  function draw(figure, factors) {
    const [place] = all(figure, ".drawing");
    const { vegaEmbed } = /** @type {any} */ (window);
    const failed = (/** @type {Error} */ error) => (place.textContent = `The chart cannot be drawn: ${error.message}`);
    vegaEmbed(place, specification(figure, factors), { actions: false, renderer: "svg" }).catch(failed);
  }

  /** Sort rows by a column; again the other way round. @param {HTMLElement} button */
  function sort(button) {
    const head = /** @type {HTMLTableCellElement} */ (button.closest("th"));
    const body = /** @type {HTMLTableElement} */ (head.closest("table")).tBodies[0];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const text = (/** @type {HTMLTableRowElement} */ row) => row.cells[head.cellIndex].textContent ?? "";
    // Words come after numbers.
    const number = (/** @type {HTMLTableRowElement} */ row) => parseFloat(text(row).replace(/[,$<>~ ]/g, "")) || (/\d/.test(text(row)) ? 0 : Infinity);
    const rows = [...body.rows].sort((one, other) => {
      const [a, b] = [number(one), number(other)];
      if (a === b) return sign * text(one).localeCompare(text(other));
      return Math.max(a, b) === Infinity ? a - b : sign * (a - b);
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
    const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Cannot copy";
    area.remove();
    button.focus();
  }

  const articles = /** @type {HTMLElement[]} */ (all(document, "article"));
  const redraw = () => articles.forEach(rescale);
  for (const article of articles) {
    article.addEventListener("input", (event) => {
      const moved = /** @type {HTMLInputElement} */ (event.target);
      const twins = /** @type {HTMLInputElement[]} */ (all(article, `[data-slider="${moved.dataset.slider}"]`));
      for (const twin of twins) if (twin !== moved) twin.value = moved.value;
      rescale(article);
    });
    article.addEventListener("reset", () => setTimeout(() => rescale(article)));
  }
  document.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest("button");
    if (button?.classList.contains("sort")) sort(button);
    if (button?.classList.contains("copy")) copy(button);
  });
  for (const query of [dark, narrow]) query.addEventListener("change", redraw);
  redraw();
})();
