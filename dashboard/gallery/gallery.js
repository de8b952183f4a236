// Draws the charts, matrices and clocks of a page of the gallery from the data that stand in it.
// The code of matrices and clocks is that of the dashboard; each is given the root it draws in.

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const ink = dark ? "#e6ebf0" : "#0a1017";
const quiet = dark ? "#38424d" : "#d5dae1";
const config = {
  background: dark ? "#10161d" : "#ffffff", // by which texts take their colour
  font: "system-ui, sans-serif", view: { stroke: null },
  title: { color: ink, subtitleColor: ink },
  axis: { labelColor: ink, titleColor: ink, gridColor: quiet, domainColor: quiet, tickColor: quiet },
  legend: { labelColor: ink, titleColor: ink },
  style: { text: { fill: ink } },
};

/** The data that stand in an element, as the page was written. */
const dataOf = (element) => JSON.parse(element.querySelector("script[type='application/json']").textContent);

function start(kind, element, data) {
  const shared = (globalThis[Symbol.for(`posenc.${kind}`)] ??= { waiting: new Map() });
  const holder = document.createElement("div");
  element.append(holder);
  const component = { parentElement: holder.attachShadow({ mode: "open" }), data, setTriggerValue() {} };
  shared.draw ? shared.draw(component) : shared.waiting.set(component.parentElement, component);
}

for (const element of document.querySelectorAll(".chart")) {
  vegaEmbed(element.appendChild(document.createElement("div")), dataOf(element), { actions: false, config });
}
for (const element of document.querySelectorAll(".matrix")) {
  start("matrix", element, Uint8Array.from(atob(dataOf(element)), (letter) => letter.charCodeAt(0)));
}
for (const element of document.querySelectorAll(".clocks")) start("clock", element, dataOf(element));
