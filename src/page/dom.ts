type Child = Node | string

/** An element. Children that are texts become text nodes: what the cluster calls a thing is never HTML. */
export const el = <K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] => {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** What the page has by this id. */
export const byId = (id: string): HTMLElement => {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found
}

/** Writes only what is new, so that nothing flickers and a selection stays. */
export const setText = (node: Node, text: string): void => {
  if (node.textContent !== text) node.textContent = text
}

/** The same for an attribute; '' takes it away. */
export const setAttribute = (element: Element, name: string, value: string): void => {
  if (value === '') element.removeAttribute(name)
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}
