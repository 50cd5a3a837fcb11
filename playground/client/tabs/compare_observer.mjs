// A hidden view that notifies a comparison when the run of one of its columns changes.

/** @typedef {{ changed: () => void, selected: (run: Run) => void }} ColumnWatcher */

/** @type {Map<string, ColumnWatcher>} key of a stage -> who follows its run */
export const columnWatchers = new Map();

/** @type {ViewSpec} */
export const compareObserverView = {
  title: "",
  heading: false,
  mount(root, ctx) {
    root.parentElement?.classList.add("cmp-hidden");
    return {
      update: () => columnWatchers.get(ctx.strategy)?.changed(),
      select: (run) => columnWatchers.get(ctx.strategy)?.selected(run),
      clear() {},
    };
  },
};
