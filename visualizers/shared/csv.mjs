// Tables as CSV.

/**
 * Return a cell. A text is in quotes, as a reader may take any line break in it for a new row. An
 * apostrophe keeps spreadsheets from running a text as a formula.
 * @param {string | number | null | undefined} value
 */
function csvCell(value) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return `"${text.replace(/"/g, '""')}"`;
}

/**
 * Return a table as CSV.
 * @param {string[]} columns names, which are written as they are
 * @param {(string | number | null | undefined)[][]} rows
 */
export const toCsv = (columns, rows) =>
  [columns, ...rows.map((row) => row.map(csvCell))].map((row) => `${row.join(",")}\n`).join("");
