// Tells a comparison that the run of one of its columns moved on: a view without a picture of its own.

// By the key of a column: whom to tell.
export const watchers = new Map();

/** @type {ViewSpec} */
export const compareWatch = {
  title: "",
  heading: false,
  /** @param {Context} ctx */
  mount(root, ctx) {
    root.parentElement.classList.add("cmp-hidden");
    return { update: () => watchers.get(ctx.strategy)?.(), select() {}, clear() {} };
  },
};
