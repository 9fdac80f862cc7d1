// Who is who: the letter, the colour and the pattern of a request. Okabe-Ito colours plus two; a colour is never the
// only signal, so each mark also has a letter or a pattern.

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999", "#B8A200", "#7A6FD0"];

export const label = (id) => String.fromCharCode(65 + (id % 26)) + (id >= 26 ? Math.floor(id / 26) : "");

export const colour = (id) => COLOURS[id % COLOURS.length];

function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Black or white, whichever has the better contrast on the colour.
const INKS = COLOURS.map((hex) => (luminance(hex) > 0.179 ? "#000000" : "#ffffff"));
export const inkOn = (id) => INKS[id % COLOURS.length];

// Draws one tile of a pattern: "hatch" (prefill, padded) or "dots" (cached).
function tile(kind, hex, scale) {
  const size = Math.round(6 * scale);
  const canvas = new OffscreenCanvas(size, size);
  const pen = canvas.getContext("2d");
  pen.fillStyle = pen.strokeStyle = hex;
  if (kind === "dots") {
    pen.beginPath();
    pen.arc(size / 2, size / 2, size * 0.22, 0, 7);
    pen.fill();
  } else {
    pen.globalAlpha = 0.25;
    pen.fillRect(0, 0, size, size);
    pen.globalAlpha = 1;
    pen.lineWidth = size * 0.36;
    for (const shift of [-size, 0, size]) {
      pen.beginPath();
      pen.moveTo(shift - 1, size + 1);
      pen.lineTo(shift + size + 1, -1);
      pen.stroke();
    }
  }
  return canvas;
}

const patterns = new Map();

// A canvas pattern in device pixels; made once per kind, colour and pixel ratio.
export function pattern(pen, kind, hex, scale) {
  const key = `${kind}${hex}${scale}`;
  if (!patterns.has(key)) {
    const made = pen.createPattern(tile(kind, hex, scale), "repeat");
    made.setTransform(new DOMMatrix().scale(1 / scale));
    patterns.set(key, made);
  }
  return patterns.get(key);
}

// The colours of the theme, read from the style sheet so that light and dark are defined in one place.
export function themeInks(root) {
  const style = getComputedStyle(root);
  const read = (name) => style.getPropertyValue(`--fd-${name}`).trim();
  return Object.fromEntries(["ink", "dim", "line", "card", "accent", "bad"].map((name) => [name, read(name)]));
}

// Dark when the page's own background is dark; the operating system decides where Streamlit gives no colour.
export function isDark(root) {
  const given = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  if (/^#[0-9a-f]{6}$/i.test(given)) return luminance(given) < 0.179;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
