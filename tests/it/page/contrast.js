// The texts of this page whose contrast with what is behind them is less than 4.5:1 (WCAG 2.2, 1.4.3), each with
// its ratio. A colour of any notation is read as the canvas paints it; what is behind is composed of all
// backgrounds from the root on, and in a chart also of the shapes that are painted before.
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const paint = canvas.getContext("2d", { willReadFrequently: true });

function rgba(colour) {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}

function over([r, g, b, a], [r0, g0, b0]) {
  const mix = (top, below) => top * a + below * (1 - a);
  return [mix(r, r0), mix(g, g0), mix(b, b0), 1];
}

function luminance([r, g, b]) {
  const linear = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function ratio(a, b) {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

function chain(element) {
  const up = [];
  for (let at = element; at; at = at.parentElement) up.unshift(at);
  return up;
}

function opacity(element) {
  return chain(element).reduce((all, at) => all * Number(getComputedStyle(at).opacity), 1);
}

function shapesBehind(element) {
  const svg = element.closest("svg");
  if (!svg) return [];
  const box = element.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  return [...svg.querySelectorAll("rect, polygon, circle")].filter((shape) => {
    const at = shape.getBoundingClientRect();
    const before = shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
    return before && at.left <= x && x <= at.right && at.top <= y && y <= at.bottom;
  });
}

function behind(element) {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
    && matchMedia("(prefers-color-scheme: dark)").matches;
  let all = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
  for (const at of chain(element)) all = over(rgba(getComputedStyle(at).backgroundColor), all);
  for (const shape of shapesBehind(element)) {
    const style = getComputedStyle(shape);
    if (style.fill === "none") continue;
    const [r, g, b, a] = rgba(style.fill);
    all = over([r, g, b, a * Number(style.fillOpacity) * opacity(shape)], all);
  }
  return all;
}

function audit(element, colour, text) {
  const back = behind(element);
  const [r, g, b, a] = rgba(colour);
  const found = ratio(over([r, g, b, a * opacity(element)], back), back);
  return found < 4.5 ? [`${found.toFixed(2)}:1 ${element.nodeName}.${element.getAttribute("class") ?? ""} ${text}`] : [];
}

document.querySelectorAll("details").forEach((details) => { details.open = true; });
const low = [];
let seen = 0;
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  const text = texts.currentNode.data.trim();
  if (!text || element.closest("script, style, noscript, title, desc")) continue;
  const box = element.getBoundingClientRect();
  const shown = element.checkVisibility({ visibilityProperty: true }) && box.width > 1 && box.height > 1;
  if (!shown) continue;
  seen += 1;
  const style = getComputedStyle(element);
  low.push(...audit(element, element.closest("svg") ? style.fill : style.color, text.slice(0, 40)));
}
for (const input of document.querySelectorAll("[placeholder]")) {
  low.push(...audit(input, getComputedStyle(input, "::placeholder").color, input.placeholder));
}
return { seen, low: [...new Set(low)] };
