// The settings of a branch: those of the run that it continues.
import { findStrategy } from "../shell/spec.mjs";

/**
 * The weight settings in the form of a run.
 * @param {Run} run
 */
function weightSettings(run) {
  const { form } = run;
  const kinds = form ? (findStrategy(run.strategy)?.params ?? []) : [];
  const held = kinds.filter(({ group, name }) => group === "weights" && name in form.values);
  return Object.fromEntries(held.map(({ name }) => [name, form.values[name]]));
}

/**
 * Return a run's settings as values of a form.
 * @param {Run} run
 */
export function formSettings(run) {
  // Of a server's run, only the form knows the address.
  if (run.served && run.form) return { ...run.form, params: run.form.values };
  const given = Object.entries(run.config).filter(([, value]) => value !== null);
  const params = given.map(([key, value]) => [
    key,
    typeof value === "object" ? JSON.stringify(value) : value,
  ]);
  return {
    strategy: run.strategy,
    params: { ...Object.fromEntries(params), ...weightSettings(run) },
    model: run.model.id,
    assistant: run.assistant ? run.assistant.id : "",
  };
}
