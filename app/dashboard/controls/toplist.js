// Rows of a top list: a button with the value, its count, its change, and a bar behind them. All text is set as text.
export default function ({ data, parentElement, setTriggerValue }) {
  const list = parentElement.querySelector(".toplist");
  const chosen = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.style.setProperty("--bar", data.color);
  list.parentElement.dataset.label = data.label;
  list.setAttribute("aria-label", data.label);
  list.replaceChildren(
    line("head", [part("span", "value", ""), ...counts(data.heading, data.changed && "Change", data.against)]),
    ...data.rows.map((row) => {
      const button = part("button", "value", row.label);
      button.title = `Filter: ${row.filter}`;
      button.onclick = () => setTriggerValue("picked", row.filter);
      const item = line("row", [button, ...counts(row.count, data.changed && row.change)]);
      item.style.setProperty("--share", row.share);
      return item;
    }),
  );
  // A refresh keeps the focus where it was.
  if (chosen >= 0) list.querySelectorAll("button")[chosen]?.focus();
}

function counts(count, change, hint) {
  const cells = [part("span", "count", count)];
  if (change !== false) {
    cells.push(part("span", "change", change));
    if (hint) cells.at(-1).title = hint;
  }
  return cells;
}

function line(kind, parts) {
  const item = document.createElement("li");
  item.className = kind;
  item.replaceChildren(...parts);
  return item;
}

function part(tag, kind, text) {
  const element = document.createElement(tag);
  element.className = kind;
  element.textContent = text;
  return element;
}
