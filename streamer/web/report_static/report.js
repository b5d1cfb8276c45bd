// Draws what can be drawn better than as a plain table; without it the tables stand as they are.

import { Board } from "./board.js";
import { WORDS } from "./boards.js";
import { Charts } from "./charts.js";
import { card, h } from "./dom.js";
import { ReportMatrix } from "./report_matrix.js";
import { Tiers } from "./tiers.js";

const data = JSON.parse(document.getElementById("data").textContent);
const place = (id, ...elements) => document.getElementById(id)?.replaceChildren(...elements);

const charts = new Charts(data.run.run_id);
place("charts", charts.element);
charts.update(data.agents, data.tiers, data.run.primary_metric);
charts.curves.take({ state_version: data.run.state_version, curves: data.curves });

const board = new Board();
place("agents", card("Agents", [h("span", { class: "note" }, WORDS.grade_marks)], board.element));
const drawBoard = () => board.update(data.agents, (label) => charts.indexOf(label), data.run.primary_metric, { places: data.places });
charts.told = drawBoard;
drawBoard();

if (data.matrix) place("matrix", new ReportMatrix(data.matrix, data.trials ?? null, data.agents).element);
else if (data.no_matrix) place("matrix", h("p", { class: "note" }, data.no_matrix));

if (data.tiers.length) {
  const tiers = new Tiers();
  place("tiers", tiers.element);
  tiers.update(data.tiers, data.run);
}
