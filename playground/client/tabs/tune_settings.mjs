// The settings of a table: what they are called, and those of a grid.
import { formatSetting } from "../../../visualizers/shared/text.mjs";
import { pageLanguage } from "../../../visualizers/shared/tr.mjs";
import { said } from "../forms/settings.mjs";
import { findStrategy } from "../shell/spec.mjs";

/** @typedef {{ strategy: string, values: Record<string, any>, name?: string }} TuneColumn */

const COMMON = "max_new_tokens";

/**
 * Return the name of a setting: its strategy, and its parameters that are not those of all settings
 * of this strategy.
 * @param {TuneColumn} column
 * @param {TuneColumn[]} columns
 */
export function columnName({ strategy, values }, columns) {
  const spec = findStrategy(strategy);
  const others = columns.filter((one) => one.strategy === strategy);
  /** @param {string} name */
  const isShared = (name) =>
    others.length > 1 && others.every((one) => one.values[name] === values[name]);
  const parts = Object.entries(values)
    .filter(([name]) => name !== COMMON && !isShared(name))
    .map(([name, value]) => {
      const label = spec?.params.find((p) => p.name === name)?.label ?? name;
      const shown = typeof value === "number" ? formatSetting(value) : said(value);
      // German writes nouns with a capital letter.
      return `${pageLanguage() === "en" ? label.toLowerCase() : label} ${shown}`;
    });
  return [spec?.title ?? strategy, ...parts].join(", ");
}

/**
 * Return the settings of a grid, one for every combination of its values.
 * @param {TuneColumn} column
 * @param {string} grid lines such as "temperature = 0.5, 0.7"
 */
export function expandGrid(column, grid) {
  let found = [column];
  for (const line of grid.split("\n").filter((one) => one.includes("="))) {
    const [name, list] = line.split("=", 2).map((part) => part.trim());
    const values = list
      .split(",")
      .map((part) => part.trim())
      .filter(Boolean)
      .map((text) => (Number.isNaN(Number(text)) ? text : Number(text)));
    found = found.flatMap((one) =>
      values.map((value) => ({ ...one, values: { ...one.values, [name]: value } })),
    );
  }
  return found;
}
