// Icons of the transport bar as SVG paths in a 16 x 16 box: the same on every system, in the colour of the text.

const PATHS = {
  first: "M3 3h2v10H3zM14 3v10L6 8z",
  back: "M12 3v10L4 8z",
  forward: "M4 3v10l8-5z",
  play: "M4 2.5v11L13.5 8z",
  pause: "M3.5 3H7v10H3.5zM9 3h3.5v10H9z",
  live: "M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("fd-icon");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  setIcon(svg, name);
  return svg;
}

export function setIcon(svg, name) {
  if (svg.firstChild.getAttribute("d") !== PATHS[name]) svg.firstChild.setAttribute("d", PATHS[name]);
}
