// Waits for what Gradio draws later.

/**
 * Call `act` with the result of `find` once there is one. A click or a key cancels the wait.
 * @template T
 * @param {() => T | null | undefined | ""} find
 * @param {(found: T) => void} act
 */
export function waitUntilFound(find, act) {
  const others = new AbortController();
  const stop = () => others.abort();
  for (const kind of ["pointerdown", "keydown"])
    addEventListener(kind, stop, { capture: true, signal: others.signal });
  const look = () => {
    const found = find();
    if (found) {
      others.abort();
      act(found);
    } else if (!others.signal.aborted) requestAnimationFrame(look);
  };
  look();
}
