// Keeps the page live: replaces parts by those that the server sends, and updates the times.
// Without it, the page shows everything once.
"use strict";
(() => {
  const main = document.querySelector("main");
  const live = document.getElementById("live");
  const UNITS = [["y", 31557600], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  // Lead of the server's clock over ours, ms.
  let ahead = Number(main.dataset.now) - Date.now();

  // In at most two units, as the server writes a span.
  const span = (ms) => {
    let left = Math.floor(Math.abs(ms) / 1000);
    const parts = [];
    for (const [unit, seconds] of UNITS) {
      const count = Math.floor(left / seconds);
      left -= count * seconds;
      if (count > 0) parts.push(count + unit);
    }
    return parts.slice(0, 2).join(" ") || "0s";
  };

  const tick = () => {
    for (const time of document.querySelectorAll("time[data-at]")) {
      const until = Number(time.dataset.at) - Date.now() - ahead;
      const later = until > 0 ? "in " + span(until) : span(until) + " " + time.dataset.past;
      const text = Math.abs(until) < 1000 ? "now" : later;
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(tick, 1000);

  // Parts by id that cannot be replaced yet, since text in them is selected.
  const waiting = new Map();

  const place = (html) => {
    const box = document.createElement("template");
    box.innerHTML = html;
    const next = box.content.firstElementChild;
    const old = document.getElementById(next.id);
    if (!old) return true;
    const selection = getSelection();
    if (!selection.isCollapsed && selection.containsNode(old, true)) return false;
    for (const open of old.querySelectorAll("details[open][id]")) {
      const again = next.querySelector("#" + CSS.escape(open.id));
      if (again) again.open = true;
    }
    const scrolled = [...old.querySelectorAll(".scroll[id]")].map((box) => [box.id, box.scrollLeft]);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    old.replaceWith(next);
    for (const [id, left] of scrolled) {
      const again = document.getElementById(id);
      if (again) again.scrollLeft = left;
    }
    // A link without an id is known by its address.
    const address = CSS.escape(focused?.getAttribute("href") ?? "");
    const again = focused?.id ? document.getElementById(focused.id) : next.querySelector(`a[href="${address}"]`);
    if (focused) again?.focus({ preventScroll: true });
    return true;
  };

  // The answer is read aloud when its state changes, and not with every figure.
  const spoken = document.getElementById("spoken");
  const speak = () => {
    const answer = document.getElementById("answer");
    if (!spoken || answer.dataset.state === spoken.dataset.state) return;
    spoken.dataset.state = answer.dataset.state;
    spoken.textContent = answer.textContent;
  };

  const say = (state, text) => {
    if (live.textContent === text) return;
    live.dataset.state = state;
    live.textContent = text;
  };

  let source;
  let again;
  const connect = () => {
    clearTimeout(again);
    source?.close();
    source = new EventSource(main.dataset.events);
    source.addEventListener("figures", (event) => {
      const { at, now, version, parts } = JSON.parse(event.data);
      // A newer server: its script and looks, too.
      if (version !== main.dataset.version) return location.reload();
      ahead = now - Date.now();
      main.dataset.at = at;
      for (const [id, html] of Object.entries(parts)) waiting.set(id, html);
      for (const [id, html] of waiting) if (place(html)) waiting.delete(id);
      tick();
      speak();
      say("live", "live");
    });
    source.onerror = () => {
      say("reconnecting", "reconnecting …");
      // Refused, not interrupted: then the browser does not retry.
      if (source.readyState === EventSource.CLOSED) again = setTimeout(connect, 2000);
    };
  };
  // A hidden page closes its stream: a browser has few connections for all pages.
  const turn = () => {
    if (!document.hidden) return connect();
    clearTimeout(again);
    source?.close();
    say("reconnecting", "reconnecting …");
  };
  tick();
  if (!main.dataset.events) return;
  document.addEventListener("visibilitychange", turn);
  connect();
})();
