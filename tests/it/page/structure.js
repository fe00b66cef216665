// What those miss who hear a page, or go through it by its headings and landmarks.
const problems = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const expect = (is, problem) => { if (!is) problems.push(problem); };

expect(document.documentElement.lang, "no language");
expect(document.title.trim(), "no title");
expect(all("h1").length === 1, `${all("h1").length} h1`);
let level = 0;
for (const heading of all("h1, h2, h3, h4, h5, h6")) {
  const own = Number(heading.nodeName[1]);
  expect(own <= level + 1, `h${own} after h${level}: ${heading.innerText}`);
  expect(heading.innerText.trim(), `an empty h${own}`);
  level = own;
}
expect(all("main").length === 1, `${all("main").length} main`);
expect(all("body > header").length === 1, "no header");
expect(all("a[href='#main'], a[href^='#']").length > 0, "nothing to skip to the content by");
const ids = all("[id]").map((element) => element.id);
for (const id of new Set(ids)) expect(ids.filter((other) => other === id).length === 1, `id ${id} twice`);
for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
  for (const element of all(`[${attribute}]`)) {
    for (const id of element.getAttribute(attribute).split(/\s+/)) expect(ids.includes(id), `${attribute} ${id} leads nowhere`);
  }
}
for (const link of all("a[href^='#']")) {
  expect(ids.includes(link.getAttribute("href").slice(1)), `${link.getAttribute("href")} leads nowhere`);
}
for (const svg of all("svg:not(svg svg)")) {
  const hidden = svg.closest("[aria-hidden=true]");
  expect(hidden || (svg.getAttribute("role") === "img" && (svg.getAttribute("aria-label") || svg.querySelector("title"))),
    `a chart without a name in #${svg.closest("[id]")?.id}`);
}
for (const table of all("table")) {
  const box = table.closest("[role=region]"); // where it scrolls by itself
  const name = table.caption ?? table.getAttribute("aria-label") ?? box?.getAttribute("aria-label");
  expect(name, `a table without a name in #${table.closest("[id]")?.id}`);
  expect(table.querySelector("th"), "a table without headers");
  for (const th of table.querySelectorAll("th")) expect(th.scope, `th without scope: ${th.innerText}`);
}
for (const section of all("section")) {
  expect(section.getAttribute("aria-label") || section.getAttribute("aria-labelledby"), `section #${section.id} without a name`);
}
return problems;
