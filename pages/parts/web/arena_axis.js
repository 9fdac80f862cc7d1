// Ticks of seconds, at round numbers, under a drawing that uses the same scale.

import { FONT } from "./surface.js";

const HEIGHT = 18;

// `place` turns seconds into pixels; `most` is the end of the scale.
export function drawAxis(surface, most, place, inks) {
  const pen = surface.begin(HEIGHT);
  if (!pen) return;
  pen.fillStyle = inks.dim;
  pen.font = `12px ${FONT}`;
  pen.textAlign = "center";
  const stride = round(most / Math.max(2, Math.min(8, surface.width / 110)));
  for (let count = 0; count * stride <= most; count++) {
    const x = place(count * stride);
    const text = `${Number((count * stride).toPrecision(3))}${count ? "" : " s"}`;
    pen.fillRect(x, 0, 1, 4);
    pen.fillText(text, Math.max(8, Math.min(surface.width - 14, x)), 12);
  }
}

function round(rough) {
  const unit = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * unit).find((size) => size >= rough);
}
