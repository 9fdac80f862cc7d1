// The two lists, as text and never as HTML: who waits and why, and what happened.

const NEAR = 60; // events shown around the step

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function queueLines(run, queue, step, t) {
  const total = queue.at(-1) ?? 0;
  if (!total) return [el("li", { class: "dim" }, t("queue_none"))];
  const ids = queue.slice(0, -1);
  const [, , , head, reason, need, have, english] = step;
  const line = (id, place) => {
    const stopped = id === head && reason !== "none";
    const why = stopped ? t(reason, { need, have }, english) : place ? t("behind", { head: letter(ids[0]) }) : t("next");
    const prompt = run.requests[id]?.[2] ?? "";
    const words = el("span", { class: stopped ? "why" : "dim" }, why);
    const item = el("li", {}, el("b", {}, letter(id)), ` ${t("queue_prompt", { n: prompt })} `, words);
    item.style.borderLeftColor = colour(id);
    item.title = run.requests[id]?.[1] ?? "";
    return item;
  };
  const more = total > ids.length ? [el("li", { class: "dim" }, t("queue_more", { n: total - ids.length }))] : [];
  return [...ids.map(line), ...more];
}

function eventLines(run, number, t, goto) {
  let here = run.events.findIndex((event) => event[0] > number);
  if (here < 0) here = run.events.length;
  const shown = run.events.slice(Math.max(0, here - NEAR), here + NEAR / 3);
  return shown.map(([step, kind, id, need, have, other, lost, freed]) => {
    const words = t(kind, { who: letter(id), need, have, other, lost, freed });
    const line = el("button", { type: "button", onclick: () => goto(step - run.first) }, el("i", {}, String(step)), words);
    Object.assign(line.dataset, { past: step <= number, now: step === number });
    return el("li", {}, line);
  });
}
