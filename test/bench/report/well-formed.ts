const token = /<(\/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>|[<>]|[^<>]+/g
const entity = /&(?!#\d+;)/

/** What is wrong with a text as XML without comments and declarations; '' when nothing is. */
export const malformed = (xml: string): string => {
  const open: string[] = []
  for (const [whole, closing, name, attributes, empty] of xml.matchAll(token)) {
    if (whole === '<') return `a bare < after ${open.join(' > ')}`
    if (entity.test(whole)) return `a bare & in ${whole.slice(0, 80)}`
    if (name === undefined) continue
    if (closing === '/') {
      const last = open.pop()
      if (last !== name) return `</${name}> closes <${last ?? 'nothing'}>`
    } else {
      const names = [...(attributes ?? '').matchAll(/([\w:-]+)=/g)].map(([, key]) => key)
      if (new Set(names).size < names.length) return `an attribute twice in ${whole}`
      if (empty !== '/') open.push(name)
    }
  }
  return open.length === 0 ? '' : `left open: ${open.join(', ')}`
}
