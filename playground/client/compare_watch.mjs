// Tells a comparison that the run of one of its columns moved on.

export const watchers = new Map();

// A view without a picture of its own: it tells the comparison that a column's run moved on.
export const compareWatch = {
  title: "",
  heading: false,
  mount(root, ctx) {
    root.parentElement.classList.add("cmp-hidden");
    const tell = () => {
      const watcher = watchers.get(ctx.strategy);
      if (watcher) watcher();
    };
    return { update: tell, select() {}, clear() {} };
  },
};
