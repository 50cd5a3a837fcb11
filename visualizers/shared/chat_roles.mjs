// Names of the roles in a chat.
import { tr } from "./tr.mjs";

/** @type {Record<string, string>} */
const ROLE_NAMES = {
  system: tr("System"),
  user: tr("User"),
  assistant: tr("Assistant"),
  tool: tr("Tool"),
};

/**
 * Whether messages of a role are said by somebody, unlike the text of a template between them.
 * @param {string} role
 */
export const isChatRole = (role) => Object.hasOwn(ROLE_NAMES, role);

/**
 * The name of a role; a template may know others, which stay as they are.
 * @param {string} role
 */
export const roleName = (role) => (isChatRole(role) ? ROLE_NAMES[role] : role);
