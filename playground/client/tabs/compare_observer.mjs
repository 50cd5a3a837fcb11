// A hidden view that notifies a comparison when the run of one of its columns changes.

/** @type {Map<string, () => void>} column key -> function to call when its run changes */
export const columnWatchers = new Map();

/** @type {ViewSpec} */
export const compareObserverView = {
  title: "",
  heading: false,
  mount(root, ctx) {
    root.parentElement?.classList.add("cmp-hidden");
    return { update: () => columnWatchers.get(ctx.strategy)?.(), select() {}, clear() {} };
  },
};
