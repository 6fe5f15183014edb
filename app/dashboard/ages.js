// Writes parts of a line, each with an age that goes on with the clock, so that the server need not draw it again.
export default function ({ data, parentElement }) {
  const line = parentElement.querySelector("p");
  // The clock of the server, which may differ from the browser's.
  const ahead = data.now - Date.now() / 1000;
  const write = () => {
    const now = Date.now() / 1000 + ahead;
    line.textContent = data.parts.map(([before, at, after]) => before + (at ? age(now - at) : "") + after).join(" · ");
  };
  clearInterval(parentElement.tidemarkTimer);
  parentElement.tidemarkTimer = setInterval(write, 1000);
  write();
  return () => clearInterval(parentElement.tidemarkTimer);
}

function age(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [large, small, size, unit] of [["d", "h", 86400, 3600], ["h", "min", 3600, 60], ["min", "s", 60, 1]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / unit);
    return `${Math.floor(whole / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
  }
  return `${whole} s`;
}
