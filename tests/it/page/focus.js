// What has the focus now, and whether that is to be seen.
const focused = document.activeElement;
if (!focused || focused === document.body) return null;
const style = getComputedStyle(focused);
const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
const box = focused.getBoundingClientRect();
return {
  name: `${focused.nodeName.toLowerCase()} ${focused.getAttribute("name") ?? focused.getAttribute("href") ?? ""}`.trim(),
  visible: (outlined || style.boxShadow !== "none") && box.width > 0 && box.right > 0 && box.bottom > 0,
};
