// Underscores are no part of a host name (RFC 952) and are in names people resolve.
const label = /^[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?$/i

/**
 * Whether a text can be resolved as a host name. One whose last label is a number is
 * refused: resolvers take `10.0.0.256`, `127.1` or `0x7f.1` for addresses, each in its
 * own way (WHATWG URL, "ends in a number").
 */
export const isHostName = (text: string): boolean => {
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  const labels = name.split('.')
  const last = labels.at(-1) ?? ''
  return (
    name.length <= 253 &&
    labels.every(part => label.test(part)) &&
    !/^(?:\d+|0x[\da-f]*)$/i.test(last)
  )
}
