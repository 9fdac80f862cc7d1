// The two drawings: rows over steps, and the block pool. Colour and letter say whose, pattern says what.

const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999", "#B8A200", "#7A6FD0"];
const DARK_INK = [false, true, false, true, true, true, true, true, false]; // black letters on these
const FONT = "system-ui, sans-serif";
const COLUMN = 9; // least pixels of a step

const colour = (id) => COLOURS[id % COLOURS.length];
const inkOn = (id) => (DARK_INK[id % COLOURS.length] ? "#000" : "#fff");
const inks = () => {
  const style = getComputedStyle(document.body);
  return Object.fromEntries(["ink", "dim", "line", "accent"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
};

// Height for both drawings, so that they fill the window and no more.
const CHROME = 290;
const room = () => Math.max(260, innerHeight - CHROME);

function begin(canvas, height) {
  const [width, scale] = [canvas.parentElement.clientWidth, devicePixelRatio || 1];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.textBaseline = "middle";
  return [pen, width];
}

// Stripes, crosses or dots inside a box.
function textured(pen, kind, hex, x, y, w, h) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.strokeStyle = pen.fillStyle = hex;
  pen.globalAlpha = 0.25;
  pen.fillRect(x, y, w, h);
  pen.globalAlpha = 1;
  pen.lineWidth = 1.5;
  if (kind === "dots")
    for (let dx = 3; dx < w; dx += 6) for (let dy = 3; dy < h; dy += 6) pen.fillRect(x + dx, y + dy, 2, 2);
  else {
    pen.beginPath();
    for (let at = -h; at < w; at += 6) {
      pen.moveTo(x + at, y + h);
      pen.lineTo(x + at + h, y);
      if (kind === "cross") pen.moveTo(x + at, y), pen.lineTo(x + at + h, y + h);
    }
    pen.stroke();
  }
  pen.restore();
}

// The steps that fit around the one that is shown.
function windowOf(run, at, width) {
  const shown = Math.min(run.steps.length, Math.floor((width - 34) / COLUMN));
  const from = Math.max(0, Math.min(run.steps.length - shown, at - Math.floor(shown * 0.66)));
  return { from, shown, w: (width - 34) / Math.max(1, shown) };
}

function drawLanes(canvas, run, at) {
  const h = Math.max(2, Math.min(40, (room() * 0.6) / Math.max(1, run.lanes.length)));
  const [pen, width] = begin(canvas, h * run.lanes.length + 20);
  const [ink, view] = [inks(), windowOf(run, at, width)];
  const left = (step) => 34 + (step - view.from) * view.w;
  run.lanes.forEach((lane, row) => {
    const y = row * h;
    pen.fillStyle = ink.dim;
    pen.font = `11px ${FONT}`;
    if (row % Math.ceil(14 / h) === 0) pen.fillText(row, 4, y + Math.max(h / 2, 6));
    pen.fillStyle = ink.line;
    if (h >= 7) pen.fillRect(34, y + h - 1, width - 34, 0.5);
    for (const segment of lane) drawSegment(pen, segment, view, left, y, h);
  });
  pen.strokeStyle = ink.ink;
  pen.lineWidth = 2;
  pen.strokeRect(left(at), 0, Math.max(3, view.w), h * run.lanes.length);
  pen.fillStyle = ink.ink;
  pen.textAlign = at - view.from > view.shown * 0.8 ? "right" : "left";
  pen.fillText(run.first + at, left(at), h * run.lanes.length + 11);
  pen.textAlign = "left";
  return view;
}

function drawSegment(pen, [begin, end, request, kind], view, left, y, h) {
  if (end < view.from || begin >= view.from + view.shown) return;
  const x = left(Math.max(begin, view.from));
  const w = left(Math.min(end + 1, view.from + view.shown)) - x - 1;
  const [hex, gap] = [colour(request), h >= 7 ? 3 : 0.5];
  if (kind) textured(pen, kind === 1 ? "stripes" : "cross", hex, x, y + gap / 3, w, h - gap);
  else (pen.fillStyle = hex), pen.fillRect(x, y + gap / 3, w, h - gap);
  if (h < 12 || w < 14 || kind) return;
  pen.fillStyle = inkOn(request);
  pen.font = `700 11px ${FONT}`;
  pen.fillText(letter(request), x + 4, y + h / 2);
}

const letter = (id) => (id < 0 ? "" : String.fromCharCode(65 + (id % 26)) + (id >= 26 ? Math.floor(id / 26) : ""));

function drawPool(canvas, cells) {
  const across = cells.length <= 64 ? 16 : cells.length <= 128 ? 32 : Math.ceil(Math.sqrt(cells.length * 4));
  const lines = Math.ceil(cells.length / across);
  const h = Math.max(5, Math.min(60, (room() * 0.4) / lines));
  const [pen, width] = begin(canvas, h * lines + 2);
  const [ink, w] = [inks(), width / across];
  const big = w >= 17 && h >= 15;
  cells.forEach(([owner, state, refs], at) => {
    const [x, y] = [(at % across) * w + 1, Math.floor(at / across) * h + 1];
    const [cw, ch, hex] = [w - (big ? 4 : 1), h - (big ? 4 : 1), owner < 0 ? ink.line : colour(owner)];
    if (state === 1) (pen.fillStyle = hex), pen.fillRect(x, y, cw, ch);
    if (state > 1) textured(pen, state === 2 ? "dots" : "cross", hex, x, y, cw, ch);
    pen.strokeStyle = hex;
    pen.lineWidth = 1;
    if (big || state === 0) pen.strokeRect(x, y, cw, ch);
    if (!big || owner < 0) return;
    pen.font = `700 11px ${FONT}`;
    pen.fillStyle = state === 1 ? inkOn(owner) : ink.ink;
    pen.fillText(letter(owner) + (refs > 1 ? ` ×${refs}` : ""), x + 4, y + ch / 2 + 0.5);
  });
}
