// The boxes on this page whose text goes on where it is not seen without scrolling to the side, on a phone.
return [...document.querySelectorAll("main *")]
  .filter((box) => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(box).overflowX))
  .filter((box) => box.checkVisibility() && box.clientWidth > 1 && box.scrollWidth > box.clientWidth + 1)
  .filter((box) => !box.closest("svg, input, .unseen, thead"))
  .map((box) => `${box.nodeName}#${box.id}: ${box.scrollWidth} of ${box.clientWidth}`);
