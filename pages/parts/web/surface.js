// A canvas that keeps to the width of its box and to the pixels of the screen. Views give it a height and draw.

import { el } from "./dom.js";

export class Surface {
  constructor(name) {
    this.node = el("canvas", { role: "img", "aria-label": name });
    this.width = 0;
    this.onResize = null;
    this.observer = new ResizeObserver(() => {
      if (this.node.parentElement.clientWidth !== this.width && this.onResize) this.onResize();
    });
  }

  // Sizes the canvas, clears it and returns its pen in CSS pixels. Null while the box has no width (hidden).
  begin(height) {
    const width = this.node.clientWidth || this.node.parentElement.clientWidth;
    if (!width) return null;
    const scale = (devicePixelRatio || 1) * (this.node.currentCSSZoom || 1);
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.node.width !== w || this.node.height !== h) {
      this.node.width = w;
      this.node.height = h;
      this.node.style.height = `${height}px`;
    }
    this.width = width;
    this.scale = scale;
    const pen = this.node.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "middle";
    return pen;
  }

  // Where a pointer event is, in the pen's coordinates.
  place(event) {
    const box = this.node.getBoundingClientRect();
    const shrink = this.width / (box.width || 1);
    return [(event.clientX - box.left) * shrink, (event.clientY - box.top) * shrink];
  }

  describe(text) {
    if (this.node.getAttribute("aria-label") !== text) this.node.setAttribute("aria-label", text);
  }

  watch(onResize) {
    this.onResize = onResize;
    this.observer.observe(this.node.parentElement);
  }

  close() {
    this.observer.disconnect();
  }
}

// How much taller than its least height a drawing may be, so that the whole Theatre fills the window and no more.
const HEADER = 66; // the navigation above the Theatre
const FIXED = 364; // headings, first line, reasons, transport
const GAP = 8; // between cards
const LEAST = 380; // the three drawings at their least height

export function roomy(node) {
  const zoom = node.currentCSSZoom || 1;
  const line = node.closest(".fd")?.querySelector(".fd-recording")?.offsetHeight; // what is shown, above the drawings
  const fixed = FIXED + (line ? line + GAP : 0);
  return Math.max(0.85, Math.min(2, ((innerHeight - HEADER) / zoom - fixed) / LEAST));
}

export function roundBox(pen, x, y, w, h, radius) {
  pen.beginPath();
  pen.roundRect(x, y, w, h, Math.min(radius, w / 2, h / 2));
}

export const FONT = "system-ui, sans-serif";
