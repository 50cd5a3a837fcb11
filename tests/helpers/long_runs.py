"""A recorded run that goes on for as long as a test wants, fed to the page without a model."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

_LONGER = """async ([key, wanted, looked]) => {
  const known = playground.page.shown(key), steps = known.source.trace.steps, { shown } = known.source;
  const stage = playground.page.stages.find((s) => s.strategy === key);
  const ids = Math.max(0, ...steps.flatMap((s) => s.detail?.pool?.map((n) => n.node_id + 1) ?? []));
  const after = steps.at(-2).detail?.pool?.find((n) => n.fate === "kept")?.node_id;
  // The same steps again and again: each round goes on where the last one ended.
  const round = steps.length - 1, length = steps[round - 1].keep + steps[round - 1].emit.length;
  const again = (i) => {
    const times = Math.floor(i / round), at = i % round;
    const [step, seen] = structuredClone([steps[at], shown[at]]);
    const moved = (id) => (id < 0 ? (times ? after + (times - 1) * ids : -1) : id + times * ids);
    Object.assign(step, { index: i, keep: step.keep + times * length });
    for (const node of step.detail?.pool ?? [])
      Object.assign(node, { node_id: moved(node.node_id), parent_id: moved(node.parent_id) });
    if (seen.beam_tree) {
      const { row, best, died } = seen.beam_tree;
      Object.assign(seen.beam_tree, { row: moved(row), best: moved(best), died: died.map(moved) });
      Object.assign(step.detail, { heap: [] });
    }
    return [step, seen];
  };
  const later = ["steps", "outputs", "timing", "metrics", "notes"];
  const kept = [...known.fields, "fields"].filter((field) => !later.includes(field));
  const header = Object.fromEntries(kept.map((field) => [field, known[field]]));
  const run = known.id + "-longer";
  // The layer map is drawn at a pace of its own, with the column below it.
  const own = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest(".lh-plot, .lh-under");
  let seq = 0, touched = 0;
  const watch = new MutationObserver((records) => {
    for (const { target, addedNodes, removedNodes } of records)
      if (!own(target)) touched += 1 + addedNodes.length + removedNodes.length;
  });
  watch.observe(stage.root, { attributes: true, characterData: true, childList: true, subtree: true });
  const send = async (message) => {
    playground.page.receive(JSON.stringify({ run, seq: seq++, ...message }));
    do await new Promise(requestAnimationFrame); while (stage.dirty);
  };
  const count = (query) => stage.root.querySelectorAll(query).length;
  await send({ kind: "start", strategy: key, header, link: location.href });
  const found = [];
  for (let i = 0; i < wanted.at(-1); ) {
    const close = wanted.some((at) => i >= at - looked && i < at);
    if (wanted.includes(i + looked)) touched = 0;
    const batch = [again(i++)];
    while (!close && i < wanted.at(-1) && batch.length < 5 && !wanted.includes(i + looked))
      batch.push(again(i++));
    await send({ kind: "delta", steps: batch.map(([s]) => s), shown: batch.map(([, s]) => s) });
    if (!wanted.includes(i)) continue;
    const changed = touched / looked;
    for (const map of stage.root.querySelectorAll(".lh-plot"))
      for (let left = 3600; +map.dataset.steps !== i; left--) {
        if (!left) throw new Error(`the map shows ${map.dataset.steps} steps of ${i}`);
        await new Promise(requestAnimationFrame);
      }
    const tokens = count(".dp-v-strip *");
    found.push({ steps: i, tokens, others: count("*") - tokens, touched: changed });
  }
  watch.disconnect();
  return found;
}"""


def drawn_on(page: Page, key: str, wanted: list[int], looked: int = 10) -> list[dict[str, Any]]:
    """Feed the recorded run that a stage shows over and over, and count what it is made of.

    Args:
        page: the page; the stage shows a recorded run.
        key: what the stage is called.
        wanted: after how many steps to count, in order.
        looked: over how many of the last steps changes are counted.

    Returns:
        For each of them ``steps``, ``tokens`` (elements of the text), ``others`` (all other elements of the
        stage) and ``touched``: nodes that a step changed, added or removed, without the layer map, which is
        waited for.
    """
    return page.evaluate(_LONGER, [key, wanted, looked])
