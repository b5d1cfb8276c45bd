// Draws what can be drawn better than as a plain table; without it the tables stand as they are.

const data = JSON.parse(document.getElementById("data").textContent);
const put = (id, ...elements) => document.getElementById(id)?.replaceChildren(...elements);

const drawFrontier = () => {
  const { cost, quality, narrow } = charts.view();
  charts.frontier.take(data.frontiers[cost][quality][narrow ? 1 : 0]);
};
const charts = new Charts(null, drawFrontier);
put("charts", charts.element);
charts.update(data.charts);
charts.curves.take({ state_version: 0, curves: data.curves });
drawFrontier();

// The rows stand in the order of the agents.
const swatches = [...document.querySelectorAll("#agents .swatch")];
charts.told = () => swatches.forEach((swatch, at) => swatch.style.setProperty("--color", color(charts.indexOf(data.charts.order.agent_model[at]))));
charts.told();
enliven();

if (data.matrix) put("matrix", new ReportMatrix(data.matrix, data.trials ?? null).element);
else if (data.no_matrix) put("matrix", h("p", { class: "note" }, data.no_matrix));
