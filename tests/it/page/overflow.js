// What sticks out of the window on the right, unless it scrolls in a box of its own.
const width = document.documentElement.clientWidth;
const scrolls = (element) => {
  for (let at = element; at && at !== document.body; at = at.parentElement) {
    if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
  }
  return false;
};
const name = (element) => `${element.nodeName}#${element.id}.${element.getAttribute("class") ?? ""}`;
const out = [...document.body.querySelectorAll("*")]
  .filter((element) => element.getBoundingClientRect().right > width + 0.5 && !scrolls(element))
  .map(name);
return { wide: document.documentElement.scrollWidth > width, out };
