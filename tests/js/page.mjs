// As much of a page as elements need that are made and looked at, but not laid out.
class Base {}

class Element extends Base {
  attributes = {};
  childNodes = [];
  style = {};
  listeners = {};
  constructor(name, namespace) {
    super();
    this.name = name;
    this.namespace = namespace;
  }
  append(...children) {
    this.childNodes.push(...children);
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }
  addEventListener(name, act) {
    this.listeners[name] = act;
  }
  get textContent() {
    return this.childNodes.map((c) => (typeof c === "string" ? c : c.textContent)).join("");
  }
  set textContent(text) {
    this.childNodes = [text];
  }
  all() {
    const inner = this.childNodes.filter((c) => c instanceof Element);
    return [this, ...inner.flatMap((c) => c.all())];
  }
}

class Text extends Base {
  constructor(text) {
    super();
    this.textContent = text;
  }
}

const body = new Element("body");
const found = (id) => body.all().find((node) => node.attributes.id === id) ?? null;

Object.assign(globalThis, {
  Node: Base,
  HTMLElement: Element,
  MutationObserver: class {},
  addEventListener() {},
  // What is drawn later never comes.
  requestAnimationFrame() {},
  window: { addEventListener() {} },
  document: {
    body,
    addEventListener() {},
    createElement: (name) => new Element(name),
    createElementNS: (namespace, name) => new Element(name, namespace),
    createTextNode: (text) => new Text(text),
    getElementById: found,
  },
});

export { body, found };
