// Draws what can be drawn better than as a plain table; without it the tables stand as they are.

const data = JSON.parse(document.getElementById("data").textContent);
const put = (id, ...elements) => document.getElementById(id)?.replaceChildren(...elements);

const charts = new Charts();
put("charts", charts.element);
charts.update(data.agents, data.tiers, data.run.primary_metric);
charts.curves.take({ state_version: data.run.state_version, curves: data.curves });

// The rows stand in the order of `data.ranked`.
const swatches = [...document.querySelectorAll("#agents .swatch")];
charts.told = () => swatches.forEach((swatch, at) => swatch.style.setProperty("--color", color(charts.indexOf(data.ranked[at]))));
charts.told();
enliven();

if (data.matrix) put("matrix", new ReportMatrix(data.matrix, data.trials ?? null).element);
else if (data.no_matrix) put("matrix", h("p", { class: "note" }, data.no_matrix));
