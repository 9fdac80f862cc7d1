// Small helpers around the DOM. Text is always set as text, never parsed as HTML.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  const wanted = String(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

// Keeps one child per item, in order: nodes of items that stay are reused, so focus and hover survive an update.
export function keyed(container, items, key, create, update) {
  const old = new Map([...container.children].map((node) => [node.dataset.key, node]));
  let place = container.firstElementChild;
  for (const item of items) {
    const id = String(key(item));
    let node = old.get(id);
    old.delete(id);
    if (!node) {
      node = create(item);
      node.dataset.key = id;
    }
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else container.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
}

export function table(headings, rows) {
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, String(cell)))))),
  );
}
