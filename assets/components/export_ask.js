// Questions to the server with one answer each, over a hidden bus of its own.
window.DPAsk = (() => {
  const waiting = new Map();
  let send = null, number = 0;
  return {
    connect: (f) => { send = f; },
    // Register a question asked over another element; its answer comes back here under this number.
    expect(done) { waiting.set(++number, done); return number; },
    ask: (data) => new Promise((done) => {
      if (!send) return done({ error: "The page is not connected yet; try again in a moment." });
      waiting.set(++number, done);
      send({ id: number, ...data });
    }),
    receive(text) {
      if (!text) return;
      const message = JSON.parse(text), done = waiting.get(message.id);
      waiting.delete(message.id);
      if (done) done(message);
    },
    save(name, type, ...parts) {
      const url = URL.createObjectURL(new Blob(parts, { type })), a = DP.el("a", { href: url, download: name });
      document.body.append(a); a.click(); a.remove();
      setTimeout(() => URL.revokeObjectURL(url), 5000);
    },
  };
})();
