// Rows of a top list: a button with the value, its count, its change, and a bar behind them. All text is set as text.
export default function ({ data, parentElement, setTriggerValue }) {
  const list = parentElement.querySelector(".toplist");
  const chosen = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.style.setProperty("--bar", data.color);
  list.setAttribute("aria-label", data.label);
  list.replaceChildren(
    line("head", [part("span", "value", ""), ...counts(data.heading, data.changed && "Change", data.against)]),
    ...data.rows.map((row) => {
      const button = part("button", "value", row.label);
      button.title = `Filter: ${row.filter}`;
      button.onclick = () => setTriggerValue("picked", row.filter);
      const found = line("row", [button, ...counts(row.count, data.changed && row.change)]);
      found.style.setProperty("--share", row.share);
      return found;
    }),
  );
  // A refresh keeps the focus where it was.
  if (chosen >= 0) list.querySelectorAll("button")[chosen]?.focus();
}

function counts(count, change, hint) {
  const found = [part("span", "count", count)];
  if (change !== false) {
    found.push(part("span", "change", change));
    if (hint) found.at(-1).title = hint;
  }
  return found;
}

function line(kind, parts) {
  const found = document.createElement("li");
  found.className = kind;
  found.replaceChildren(...parts);
  return found;
}

function part(tag, kind, text) {
  const found = document.createElement(tag);
  found.className = kind;
  found.textContent = text;
  return found;
}
