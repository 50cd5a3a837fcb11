// A hidden view that notifies a comparison when the run of one of its columns changes.

/** Column key -> function to call when its run changes. */
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
