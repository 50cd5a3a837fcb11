// What Gradio draws later is waited for, however long; whoever clicks or types meanwhile has other plans.
export function whenThere(find, act) {
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
