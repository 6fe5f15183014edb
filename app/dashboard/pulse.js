// Draws a panel again when a table that it reads has another state, or when the clock has passed `until`. All panels of a
// page share one question to the server. A page or panel that is not seen asks for nothing.
const PERIOD_MS = 1000;
// Viewers of the same page do not all draw in the same second.
const SPREAD_S = 5;

export default function ({ data, parentElement, setTriggerValue }) {
  const panels = (window.tidemarkPanels ??= begin());
  const panel = {
    ...data,
    drawn: performance.now(),
    // The component itself takes no room, so the panel around it is looked at.
    place: parentElement.closest('[class*="st-key-panel-"]'),
    draw: () => setTriggerValue("due", true),
  };
  panels.set(data.panel, panel);
  return () => {
    if (panels.get(data.panel) === panel) panels.delete(data.panel);
  };
}

function begin() {
  const panels = new Map();
  const late = Math.random() * SPREAD_S;
  let asking = false;
  let pace = 1;

  async function look() {
    if (asking || document.visibilityState !== "visible") return;
    const now = performance.now();
    const due = [...panels.values()].filter((panel) => now - panel.drawn >= 1000 * panel.every * pace && isSeen(panel.place));
    if (!due.length) return;
    asking = true;
    const answer = await states(new Set(due.flatMap((panel) => Object.keys(panel.tables))));
    asking = false;
    if (answer === undefined) return;
    pace = answer?.pace ?? 1;
    for (const panel of due) {
      if (panels.get(panel.panel) !== panel || !isChanged(panel, answer, late)) continue;
      panel.drawn = performance.now();
      panel.draw();
    }
  }

  setInterval(look, PERIOD_MS);
  document.addEventListener("visibilitychange", look);
  return panels;
}

function isSeen(place) {
  if (!place) return true;
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < window.innerHeight;
}

// Without an answer, as where only the pages are served, every panel is drawn again.
function isChanged(panel, answer, late) {
  if (!answer?.tables || answer.now >= panel.until + late) return true;
  return Object.entries(panel.tables).some(([table, state]) => (answer.tables[table] ?? "") !== state);
}

// The states of tables; null if the server does not know this question, undefined if it does not answer.
async function states(tables) {
  const [shared] = location.pathname.match(/^.*\/share\/[^/]+/) ?? [location.pathname.replace(/\/[^/]*$/, "")];
  const query = new URLSearchParams([...tables].map((table) => ["table", table]));
  try {
    const response = await fetch(`${shared}/pulse?${query}`, { cache: "no-store" });
    return await response.json().catch(() => null);
  } catch {
    return undefined;
  }
}
