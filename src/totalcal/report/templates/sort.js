"use strict";
// A click on a column's head sorts by it; a second click turns the order round. Numbers sort as numbers.
const compare = (a, b) => {
  const [x, y] = [a, b].map((cell) => cell.dataset.key ?? cell.textContent);
  const [p, q] = [x, y].map((key) => (key === "" ? Infinity : Number(key)));
  return Number.isNaN(p) || Number.isNaN(q) ? x.localeCompare(y) : p - q;
};
for (const head of document.querySelectorAll("thead th")) {
  head.querySelector("button").addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const order = head.ariaSort === "ascending" ? "descending" : "ascending";
    for (const other of head.parentNode.cells) other.ariaSort = "none";
    head.ariaSort = order;
    const sign = order === "ascending" ? 1 : -1;
    const column = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => sign * compare(a.cells[column], b.cells[column])));
  });
}
