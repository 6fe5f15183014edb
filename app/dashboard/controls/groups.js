// Makes each group of links or buttons one stop of the Tab key. The arrows, Home and End move within a group; Tab comes
// back to the one that had the focus last, at first to the chosen one.
const ACROSS = ["ArrowLeft", "ArrowRight"];
const DOWN = ["ArrowUp", "ArrowDown"];
const GROUPS = [
  { of: ".st-key-sections", name: () => "Sections", chosen: ".st-key-section-on a", arrows: ACROSS },
  { of: ".st-key-pages", name: () => "Pages of the section", chosen: ".st-key-page-on a", arrows: ACROSS },
  { of: ".st-key-demo", name: () => "About the demo", arrows: ACROSS },
  { of: ".st-key-tiles", name: () => "Figures", chosen: '.st-key-tile-on [class*="st-key-show-"] button', arrows: ACROSS },
  { of: '[class*="st-key-heading-"]', name: (group) => group.querySelector("h5")?.innerText.trim(), arrows: ACROSS },
  { of: ".rows", name: (group) => group.dataset.label, arrows: DOWN },
];
const STOPS = 'a[href], button:not(:disabled, [role="radio"])';

export default function () {
  window.tidemarkGroups ??= begin();
}

// Those that can be seen: Streamlit hides a link in each heading.
function stopsOf(group) {
  return [...group.querySelectorAll(STOPS)].filter((stop) => stop.checkVisibility());
}

function begin() {
  const last = new WeakMap();
  let due = false;

  function arrange() {
    due = false;
    // Streamlit makes the whole page a stop; what is in it scrolls it, too.
    document.querySelector('[data-testid="stMain"][tabindex="0"]')?.setAttribute("tabindex", "-1");
    for (const kind of GROUPS) {
      for (const group of document.querySelectorAll(kind.of)) setStops(group, kind);
    }
    // The arrows scroll what is wider than its place, once it has the focus.
    for (const wide of document.querySelectorAll(".st-key-flow-chart")) {
      const index = wide.scrollWidth > wide.clientWidth ? 0 : -1;
      if (wide.tabIndex !== index) wide.tabIndex = index;
    }
  }

  function setStops(group, kind) {
    const stops = stopsOf(group);
    const chosen = [last.get(group), kind.chosen && group.querySelector(kind.chosen), stops[0]].find((each) => stops.includes(each));
    for (const stop of stops) {
      const index = stop === chosen ? 0 : -1;
      if (stop.tabIndex !== index) stop.tabIndex = index;
    }
    if (stops.length < 2) return;
    group.setAttribute("role", "toolbar");
    group.setAttribute("aria-label", kind.name(group) ?? "");
    group.setAttribute("aria-orientation", kind.arrows === DOWN ? "vertical" : "horizontal");
  }

  function groupOf(element) {
    for (const kind of GROUPS) {
      const group = element.closest(kind.of);
      if (group && element.matches(STOPS)) return [group, kind];
    }
    return [];
  }

  function take({ target }) {
    const [group, kind] = groupOf(target);
    if (!group) return;
    last.set(group, target);
    setStops(group, kind);
  }

  function move(event) {
    const [group, kind] = groupOf(event.target);
    if (!group || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const stops = stopsOf(group);
    const at = stops.indexOf(event.target);
    const to = { [kind.arrows[0]]: at - 1, [kind.arrows[1]]: at + 1, Home: 0, End: stops.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    stops[(to + stops.length) % stops.length].focus();
  }

  document.addEventListener("focusin", take);
  document.addEventListener("keydown", move);
  new MutationObserver(() => {
    if (!due) requestAnimationFrame(arrange);
    due = true;
  }).observe(document.body, { childList: true, subtree: true });
  arrange();
  return true;
}
