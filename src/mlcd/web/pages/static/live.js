// Follows a stream of page parts and puts them in place without disturbing the reader.

import { localTimes } from "./app.js";

// Streams are closed while the page is hidden: browsers allow few connections, and nobody looks.
export function follow(address, onParts, onSign = () => {}) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("parts", (event) => { onSign(true); onParts(JSON.parse(event.data)); });
    source.addEventListener("error", () => { onSign(false); if (source?.readyState === EventSource.CLOSED) { close(); setTimeout(open, 3000); } });
  };
  const close = () => { source?.close(); source = null; };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}

const drawn = new Map();

export function place(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const spot = document.querySelector(`[data-part="${name}"]`);
    if (!spot || drawn.get(name) === html) continue;
    drawn.set(name, html);
    const fresh = document.createElement("template");
    fresh.innerHTML = html; // drawn by the server, which escapes every text
    localTimes(fresh.content);
    morph(spot, fresh.content);
  }
}

// Makes the children of a like those of b; what is the same stays, with its focus, scroll and open details.
function morph(a, b) {
  const wanted = [...b.childNodes];
  wanted.forEach((node, i) => {
    const had = a.childNodes[i];
    if (!had) a.append(node.cloneNode(true));
    else if (had.nodeType !== node.nodeType || had.nodeName !== node.nodeName) had.replaceWith(node.cloneNode(true));
    else if (node.nodeType === Node.ELEMENT_NODE) { attributes(had, node); morph(had, node); }
    else if (had.nodeValue !== node.nodeValue) had.nodeValue = node.nodeValue;
  });
  while (a.childNodes.length > wanted.length) a.lastChild.remove();
}

function attributes(a, b) {
  for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && name !== "open") a.removeAttribute(name);
  for (const { name, value } of b.attributes) if (name !== "open" && a.getAttribute(name) !== value) a.setAttribute(name, value);
}
