// Keyboard: Space pause, arrows one step, Shift+arrows ten, Home and End, L follow live, / search the log, ? help.

const inField = (target) => target.closest("input:not([type=range]), textarea, select, [contenteditable=true]");

export function bindKeys(cursor, help, search) {
  const act = {
    ArrowLeft: (event) => cursor.move(event.shiftKey ? -10 : -1),
    ArrowRight: (event) => (event.shiftKey ? cursor.move(10) : cursor.forward()),
    Home: () => cursor.goto(cursor.first),
    End: () => cursor.goto(cursor.last),
    l: () => cursor.live(),
    L: () => cursor.live(),
    "/": search,
    "?": () => (help.open ? help.close() : help.showModal()),
    " ": () => cursor.toggle(),
  };
  const onKey = (event) => {
    const button = event.key === " " && event.target.closest("button, summary, a");
    if (!act[event.key] || inField(event.target) || button || event.ctrlKey || event.metaKey || event.altKey) return;
    if (help.open && event.key !== "?") return;
    event.preventDefault();
    event.stopPropagation();
    act[event.key](event);
  };
  document.addEventListener("keydown", onKey, true);
  return () => document.removeEventListener("keydown", onKey, true);
}
