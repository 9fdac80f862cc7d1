// The one builder of links into the Theatre: step, request, and the recording where the tree has it.

import { label } from "./ink.js";

const OWN = ["step", "request", "recording", "run"];

// The address that opens this tab's view again; language and presenter mode stay as they are. Recordings that a visitor
// brought or that were simulated are not on the server for others: null.
export function linkTo(cursor) {
  const { recording, selected } = cursor.store.state;
  const address = new URL(location.href);
  for (const name of OWN) address.searchParams.delete(name);
  if (recording && !recording.opened.file) return null;
  address.searchParams.set("step", cursor.step);
  if (selected !== null) address.searchParams.set("request", label(selected));
  if (recording) {
    address.searchParams.set("recording", recording.opened.file);
    address.searchParams.set("run", recording.at + 1);
  }
  return address.href;
}

// Without the clipboard (a page that is not on this machine and not encrypted) the address is shown to be copied by hand.
export async function copyLink(cursor) {
  const href = linkTo(cursor);
  try {
    await navigator.clipboard.writeText(href);
    return true;
  } catch {
    cursor.store.set({ notice: href });
    return false;
  }
}
