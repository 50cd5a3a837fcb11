// Draws a QR code from the server's rows, dark on light in every theme, as cameras expect it.
import { svg } from "../../../visualizers/shared/dom.mjs";

const QUIET_ZONE = 4;

/**
 * Draw a QR code with its quiet zone.
 * @param {string[]} rows of 0 and 1
 * @param {string} label
 */
export function drawQrCode(rows, label) {
  const size = rows.length + 2 * QUIET_ZONE;
  const dark = rows.flatMap((row, y) =>
    [...row.matchAll(/1+/g)].map(
      ({ index, 0: run }) =>
        `M${index + QUIET_ZONE} ${y + QUIET_ZONE}h${run.length}v1h-${run.length}z`,
    ),
  );
  return svg(
    "svg",
    {
      class: "rm-qr",
      viewBox: `0 0 ${size} ${size}`,
      role: "img",
      "aria-label": label,
      "shape-rendering": "crispEdges",
    },
    svg("rect", { width: size, height: size, fill: "#fff" }),
    svg("path", { d: dark.join(""), fill: "#000" }),
  );
}
