// The transport bar: buttons with names, the scrubber with its marks, and how far the view is behind the engine.

import { el, setHidden, setText } from "./dom.js";
import { triangle } from "./history.js";
import { icon, setIcon } from "./icons.js";
import { themeInks } from "./ink.js";
import { copyLink, linkTo } from "./link.js";
import { Surface } from "./surface.js";
import { number, t } from "./words.js";

const COPIED_MS = 2000;
const PACES = [2, 10, 30, 0]; // steps a second; 0: as fast as it goes

export function transport(cursor, help) {
  const first = button("first", () => cursor.goto(cursor.first));
  const back = button("back", () => cursor.move(-1));
  const play = button("pause", () => cursor.toggle());
  const forward = button("forward", () => cursor.forward());
  const live = button("live", () => cursor.live());
  const pace = el(
    "select",
    {
      class: "fd-pace",
      "aria-label": t("transport.pace"),
      title: t("transport.pace"),
      onchange: () => cursor.setPace(Number(pace.value)),
    },
    ...PACES.map((n) => el("option", { value: n }, t(n ? "transport.pace_option" : "transport.pace_full", { n }))),
  );
  const range = el("input", {
    type: "range",
    min: 0,
    max: 0,
    "aria-label": t("transport.scrub"),
    oninput: () => (cursor.stopReplay(), cursor.goto(Number(range.value))),
  });
  const surface = new Surface(t("transport.marks"));
  surface.node.setAttribute("aria-hidden", "true");
  const behind = el("span", { class: "fd-behind" });
  const linking = { type: "button", class: "fd-button fd-link", title: t("transport.link_title"), onclick: copy };
  const link = el("button", linking, t("transport.link"));
  async function copy() {
    if (!(await copyLink(cursor))) return;
    setText(link, t("transport.copied"));
    setTimeout(() => setText(link, t("transport.link")), COPIED_MS);
  }
  const ask = el(
    "button",
    { type: "button", class: "fd-button fd-help", "aria-label": t("transport.help"), onclick: () => help.showModal() },
    "?",
  );
  const node = el(
    "div",
    { class: "fd-transport", role: "toolbar", "aria-label": t("transport.name") },
    first,
    back,
    play,
    forward,
    live,
    el("div", { class: "fd-scrub" }, el("div", { class: "fd-marks" }, surface.node), range),
    behind,
    pace,
    link,
    ask,
  );

  function render(state) {
    const { frame, engine, follow, replaying, recording } = state;
    const mine = engine.drives !== "other";
    setPlay(
      play,
      follow && !cursor.idle,
      follow ? engine.paused || cursor.idle : !replaying,
      follow && !cursor.idle && !mine,
    );
    for (const one of [first, back]) one.disabled = !frame || cursor.step <= cursor.first;
    const atEnd = recording && cursor.step >= cursor.last;
    forward.disabled = !frame || atEnd || (follow && (!mine || engine.phase !== "ready"));
    play.disabled = follow && !cursor.idle && (!mine || engine.phase !== "ready");
    live.setAttribute("aria-pressed", String(follow));
    const drives = follow && !cursor.idle;
    setPaceOf(pace, drives ? engine.pace : cursor.pace, drives && !mine);
    setHidden(link, !frame || linkTo(cursor) === null);
    setText(live.lastElementChild, t(recording ? "transport.to_engine" : "transport.live"));
    if (!frame) return;
    range.min = cursor.first;
    range.max = cursor.last;
    range.value = cursor.step;
    range.setAttribute("aria-valuetext", t("transport.at", { step: cursor.step, last: cursor.last }));
    const steps = cursor.last - frame.step;
    const place = recording ? t("transport.at", { step: cursor.step, last: cursor.last }) : t("transport.behind", { n: number(steps) });
    setText(behind, follow ? t(`transport.${following(engine, cursor)}`) : place);
    behind.dataset.tone = follow ? (engine.paused ? "paused" : "live") : recording ? "" : "behind";
    drawMarks(surface, frame, cursor, themeInks(node));
  }
  return { node, render, surface };
}

const following = (engine, cursor) =>
  engine.paused ? "paused" : cursor.idle ? "ended" : engine.pace ? "slow_motion" : "following";

function setPaceOf(select, pace, disabled) {
  const nearest = PACES.includes(pace) ? pace : (PACES.find((one) => one >= pace) ?? 0);
  if (document.activeElement !== select && Number(select.value) !== nearest) select.value = nearest;
  select.disabled = disabled;
}

function button(id, act) {
  const words = el("span", { class: "fd-word" }, t(`transport.${id}`));
  return el(
    "button",
    { type: "button", class: `fd-button fd-${id}`, title: t(`transport.${id}_title`), onclick: act },
    icon(id),
    words,
  );
}

function setPlay(node, follow, standing, barred) {
  const id = follow ? (standing ? "resume" : "pause") : standing ? "replay" : "hold";
  setIcon(node.children[0], standing ? "play" : "pause");
  setText(node.children[1], t(`transport.${id}`));
  node.title = barred ? t("notice.other_tab") : t(`transport.${id}_title`);
}

// Preemptions as triangles, evictions as dots, over the whole run.
function drawMarks(surface, frame, cursor, ink) {
  const pen = surface.begin(10);
  if (!pen) return;
  const span = Math.max(1, cursor.last - cursor.first);
  for (const [step, kind] of frame.marks) {
    const x = 8 + ((step - cursor.first) / span) * (surface.width - 16);
    if (kind === "preempt") triangle(pen, x, 0, ink.bad);
    else {
      pen.fillStyle = ink.dim;
      pen.fillRect(x - 1, 5, 2, 4);
    }
  }
}

export function helpDialog() {
  const row = (keys, id) => el("tr", {}, el("td", {}, ...keys.map((key) => el("kbd", {}, key))), el("td", {}, t(id)));
  const dialog = el(
    "dialog",
    { class: "fd-dialog", "aria-label": t("help.title") },
    el("h2", {}, t("help.title")),
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        row([t("help.space")], "help.play"),
        row(["←", "→"], "help.step"),
        row(["⇧ ←", "⇧ →"], "help.ten"),
        row(["Home", "End"], "help.ends"),
        row(["L"], "help.live"),
        row(["/"], "help.search"),
        row(["?"], "help.help"),
      ),
    ),
    el("p", {}, t("help.two_cursors")),
    el("button", { type: "button", class: "fd-button", onclick: () => dialog.close() }, t("help.close")),
  );
  return dialog;
}
