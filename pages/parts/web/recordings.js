// A recording instead of the engine: choose one of this tree or a file of your own, see where it was made, leave again.

import { el, setHidden, setText } from "./dom.js";
import { language, number, t } from "./words.js";

// The dialog behind "open recording".
export function recordingDialog(cursor) {
  const list = el("div", { class: "fd-choices" });
  const file = el("input", { type: "file", accept: ".fdtrace", "aria-label": t("recording.file"), onchange: bring });
  const trouble = el("p", { class: "fd-trouble", role: "alert" });
  const close = el("button", { type: "button", class: "fd-button", onclick: () => dialog.close() }, t("help.close"));
  const parts = [el("h2", {}, t("recording.open")), el("p", {}, t("recording.what"))];
  const own = el("label", { class: "fd-file" }, el("b", {}, t("recording.file")), file);
  const dialog = el("dialog", { class: "fd-opening", "aria-label": t("recording.open") }, ...parts, list, own, trouble, close);

  const take = (answer) => (answer ? (dialog.close(), cursor.watch(answer)) : setText(trouble, cursor.store.state.notice));
  const choose = (name) => cursor.openShipped(name).then(take);

  async function bring() {
    if (!file.files.length) return;
    const query = new URLSearchParams({ title: file.files[0].name });
    const body = { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file.files[0] };
    take(await cursor.ask(`recording?${query}`, body));
    file.value = "";
  }

  async function show() {
    setText(trouble, "");
    const names = (await cursor.ask("recordings")) ?? [];
    const button = (name) => el("button", { type: "button", class: "fd-button", onclick: () => choose(name) }, name);
    list.replaceChildren(...names.map(button));
    dialog.showModal();
  }
  return { node: dialog, show };
}

// The line above the picture while a recording is shown.
export function recordingLine(cursor) {
  const words = el("span", { class: "fd-status-words" });
  const runs = el("select", { class: "fd-pace", "aria-label": t("recording.run"), onchange: () => cursor.watch(opened, runs.selectedIndex) });
  const leave = el("button", { type: "button", class: "fd-button", onclick: () => cursor.live() }, t("recording.leave"));
  const node = el("div", { class: "fd-recording", role: "status" }, words, runs, leave);
  let opened = null;

  function render({ recording }) {
    setHidden(node, !recording);
    if (!recording || (opened === recording.opened && runs.selectedIndex === recording.at)) return;
    opened = recording.opened;
    setText(words, t(opened.simulated ? `recording.simulated_${opened.title}` : "recording.shown", opened));
    const name = (run) => (run.side ? t(`whatif.${run.side}`) : run.batching);
    const option = (run) => el("option", {}, t("recording.run_option", { batching: name(run), n: number(run.steps) }));
    runs.replaceChildren(...opened.runs.map(option));
    runs.selectedIndex = recording.at;
    setHidden(runs, opened.runs.length < 2);
  }
  return { node, render };
}

// The buttons beside the prompt: the run as a recording and as a page of its own, and opening one.
export function recordingButtons(cursor, dialog) {
  const save = el("a", { class: "fd-button", title: t("recording.save_title"), download: "flightdeck.fdtrace" }, t("recording.save"));
  const saving = { class: "fd-button fd-page", title: t("replay.save_title"), download: "flightdeck.html" };
  const page = el("a", saving, t("replay.save"));
  const open = el("button", { type: "button", class: "fd-button", title: t("recording.what"), onclick: dialog.show }, t("recording.open"));

  function render({ frame, recording }) {
    setHidden(save, !frame || Boolean(recording));
    save.href = `${cursor.base}recording`;
    setHidden(page, !frame);
    page.href = `${cursor.base}replay?${new URLSearchParams({ recording: cursor.recording, lang: language() })}`;
  }
  return { nodes: [save, page, open], render };
}
