// One page, one cursor: slider, keys and clicks move it; everything is drawn from what the file holds.

const { runs, words, language: opened } = JSON.parse(document.getElementById("data").textContent);
const PACE_MS = 100;
let [language, run, at, timer] = [opened === "zh" ? 1 : 0, runs[0], 0, 0];

// English reasons come with the run, and say more than the catalogue can.
function t(id, values = {}, english = "") {
  if (english && language === 0) return english;
  return (words[id]?.[language] ?? id).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

const root = document.getElementById("replay");
const part = (tag, attributes = {}) => el(tag, attributes);
const [lanes, pool] = [part("canvas", { role: "img" }), part("canvas", { role: "img" })];
const [queue, events] = [part("ul", { class: "queue" }), part("ul", { class: "events" })];
const slider = part("input", { type: "range", min: 0, oninput: () => (hold(), goto(Number(slider.value))) });
const [place, voice] = [part("span", { class: "place" }), part("p", { class: "unseen", "aria-live": "polite" })];
const play = part("button", { type: "button", onclick: () => toggle() });
const [poolCaption, queueCount] = [part("small"), part("small")];
let view = null;

lanes.addEventListener("click", (event) => {
  const x = event.clientX - lanes.getBoundingClientRect().left;
  if (view) hold(), goto(view.from + Math.floor((x - 34) / view.w));
});

function goto(step) {
  at = Math.max(0, Math.min(run.steps.length - 1, step));
  draw();
}

function hold() {
  clearInterval(timer);
  timer = 0;
  play.textContent = t("play");
}

function toggle() {
  if (timer) return hold();
  if (at >= run.steps.length - 1) goto(0);
  timer = setInterval(() => (at < run.steps.length - 1 ? goto(at + 1) : hold()), PACE_MS);
  play.textContent = t("hold");
}

// The pool and the queue as they stood: all changes up to the step.
function standing() {
  const cells = Array.from({ length: Math.ceil(run.pool_blocks / run.per_cell) }, () => [-1, 0, 0]);
  let waiting = [];
  for (let step = 0; step <= at; step++) {
    const changed = run.pool[step];
    for (let i = 0; i < changed.length; i += 4) cells[changed[i]] = changed.slice(i + 1, i + 4);
    waiting = run.queue[step] || waiting;
  }
  return [cells, waiting];
}

function draw() {
  const [[seconds, used, budget], number, last] = [run.steps[at], run.first + at, run.first + run.steps.length - 1];
  const [cells, waiting] = standing();
  view = drawLanes(lanes, run, at);
  drawPool(pool, cells);
  const count = (...states) => cells.filter((cell) => states.includes(cell[1])).length;
  const thinned = run.per_cell > 1 ? ` · ${t("pool_thinned", { n: run.per_cell })}` : "";
  poolCaption.textContent = t("pool_caption", { used: count(1, 3), cached: count(2), free: count(0) }) + thinned;
  pool.setAttribute("aria-label", `${t("pool")}: ${poolCaption.textContent}`);
  const now = run.lanes.flatMap((lane) => lane.filter(([from, to]) => from <= at && at <= to));
  const from = run.first + view.from;
  const named = { rows: run.lanes.length, from, to: from + view.shown - 1, step: number };
  lanes.setAttribute("aria-label", t("lanes_name", { ...named, list: now.map((one) => letter(one[2])).join(", ") }));
  queue.replaceChildren(...queueLines(run, waiting, run.steps[at], t));
  queueCount.textContent = waiting.at(-1) ?? 0;
  events.replaceChildren(...eventLines(run, number, t, (step) => (hold(), goto(step))));
  const newest = [...events.querySelectorAll('[data-past="true"]')].at(-1);
  if (newest && !events.matches(":hover"))
    events.scrollTop = newest.offsetTop - events.offsetTop - events.clientHeight / 2;
  Object.assign(slider, { max: run.steps.length - 1, value: at });
  place.textContent = t("at", { n: number, last, s: seconds.toFixed(2), used, budget });
  slider.setAttribute("aria-valuetext", place.textContent);
  if (!timer) voice.textContent = t("summary", { n: number, running: now.length, waiting: waiting.at(-1) ?? 0 });
}

function button(id, act) {
  return el("button", { type: "button", onclick: () => (hold(), act()) }, t(id));
}

function chooser() {
  const words = (one, place) => ({ n: place + 1, batching: one.policies.batching ?? "", steps: one.steps.length });
  const option = (one, place) => el("option", { selected: one === run }, t("run_option", words(one, place)));
  const select = el("select", { "aria-label": t("run"), onchange: choose }, ...runs.map(option));
  function choose() {
    hold();
    [run, at] = [runs[select.selectedIndex], 0];
    build();
  }
  return select;
}

function otherLanguage() {
  language = 1 - language;
  build();
}

const card = (name, caption, ...children) => el("section", { class: "card" }, el("h2", {}, t(name), " ", caption), ...children);

// Everything with words in it is made anew when the language or the run changes.
function build() {
  document.documentElement.lang = language ? "zh" : "en";
  document.title = t("title");
  const facts = [run.model, run.device, run.date].filter(Boolean).join(" · ");
  const other = el("button", { type: "button", class: "language", onclick: otherLanguage }, t("other"));
  const badge = el("span", { class: "badge", "data-kind": run.provenance }, t(run.provenance));
  const choice = runs.length > 1 ? [chooser()] : [];
  const top = el("header", {}, el("h1", {}, t("title")), el("span", { class: "dim" }, facts), badge, ...choice, other);
  const policies = Object.entries(run.policies).map(([name, value]) => t("policy", { name: t(name), value }));
  const notes = [...policies, run.left_out ? t("left_out", { n: run.left_out }) : ""].filter(Boolean).join(" · ");
  slider.setAttribute("aria-label", t("slider"));
  play.textContent = t(timer ? "hold" : "play");
  const backwards = [button("first", () => goto(0)), button("back", () => goto(at - 1))];
  const forward = button("forward", () => goto(at + 1));
  const bar = el("div", { class: "bar", role: "toolbar" }, ...backwards, play, forward, slider, place);
  const rows = card("lanes", el("small", {}, t("lanes_caption")), el("div", {}, lanes));
  const blocks = card("pool", poolCaption, el("div", {}, pool));
  const middle = el("div", { class: "middle" }, rows, blocks);
  const stage = el("div", { class: "stage" }, card("queue", queueCount, queue), middle, card("events", "", events));
  root.replaceChildren(top, el("p", { class: "dim" }, notes), stage, bar, el("p", { class: "dim" }, t("keys")), voice);
  draw();
}

const KEYS = {
  ArrowLeft: (event) => goto(at - (event.shiftKey ? 10 : 1)),
  ArrowRight: (event) => goto(at + (event.shiftKey ? 10 : 1)),
  Home: () => goto(0),
  End: () => goto(run.steps.length - 1),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select")) return;
  if (event.key === " " && !event.target.closest("button")) toggle();
  else if (KEYS[event.key]) hold(), KEYS[event.key](event);
  else return;
  event.preventDefault();
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
build();
