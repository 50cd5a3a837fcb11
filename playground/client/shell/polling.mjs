// Waits for what Gradio draws later.

/**
 * Call `act` with the result of `find` once there is one, whatever the visitor does meanwhile.
 * @template T
 * @param {() => T | null | undefined | ""} find
 * @param {(found: T) => void} act
 * @param {AbortSignal} [signal] ends the wait
 */
export function onceFound(find, act, signal) {
  const look = () => {
    if (signal?.aborted) return;
    const found = find();
    if (found) act(found);
    else requestAnimationFrame(look);
  };
  look();
}

/**
 * Do the same for what a visitor may no longer want: a click or a key cancels the wait.
 * @template T
 * @param {() => T | null | undefined | ""} find
 * @param {(found: T) => void} act
 */
export function waitUntilFound(find, act) {
  const others = new AbortController();
  const stop = () => others.abort();
  for (const kind of ["pointerdown", "keydown"])
    addEventListener(kind, stop, { capture: true, signal: others.signal });
  const whenFound = (/** @type {T} */ found) => {
    stop();
    act(found);
  };
  onceFound(find, whenFound, others.signal);
}
