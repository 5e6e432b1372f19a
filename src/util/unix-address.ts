/**
 * Sockets of the file system and abstract ones (unix(7)), written as addresses: `unix:/run/db.sock`,
 * `unix:@name`. Their port is 0. Where one is listened on, who may connect may stand behind it:
 * `unix:/run/db.sock?mode=600&uid=999&gid=999`.
 */
const prefix = 'unix:'

/** What `sun_path` holds beside a zero, and five bytes while one is made (placed-socket.ts). */
const mostPathBytes = 102

/** The peer of a unix socket has no address: this stands for it. */
export const unixPeer = prefix

export const isUnix = (address: string): boolean => address.startsWith(prefix)

/** Without who may connect: two with the same one are the same socket. */
export const unixPlace = (address: string): string =>
  isUnix(address) ? address.replace(/\?.*$/s, '') : address

/** As the kernel has it: a path, or an abstract name behind a zero. */
export const unixPath = (address: string): string => {
  const path = unixPlace(address).slice(prefix.length)
  return path.startsWith('@') ? `\0${path.slice(1)}` : path
}

/** Who may connect to a socket of the file system. */
export interface SocketAccess {
  readonly mode: number
  /** Undefined: of this process. */
  readonly uid: number | undefined
  readonly gid: number | undefined
}

const usualMode = 0o660

export const accessOf = (address: string): SocketAccess => {
  const given = new URLSearchParams(address.slice(unixPlace(address).length))
  const number = (name: string, base: number): number | undefined => {
    const text = given.get(name)
    return text === null ? undefined : Number.parseInt(text, base)
  }
  return {
    mode: number('mode', 8) ?? usualMode,
    uid: number('uid', 10),
    gid: number('gid', 10),
  }
}

/** The address of a socket to listen on; `mode` in octal digits. */
export const withAccess = (
  address: string,
  {
    mode,
    uid,
    gid,
  }: { mode?: string | undefined; uid?: string | undefined; gid?: string | undefined },
): string => {
  const given = Object.entries({ mode, uid, gid }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  )
  return given.length === 0 ? address : `${address}?${given.join('&')}`
}

/** As it is kept: some write `unix:///run/db.sock`. */
export const canonicalUnix = (text: string): string =>
  text.replace(/^unix:\/{3}(?!\/)/, 'unix:/')

/** What is wrong with a text that begins as one of them, and what would be right; '' when nothing is. */
export const unixFault = (text: string): string => {
  const path = text.slice(prefix.length)
  const like = 'like unix:/run/db.sock, or unix:@db for an abstract one'
  if (!/^(\/.*[^/]|@.+)$/s.test(path)) return `is not unix: and a path, ${like}`
  if (/[?\0\s]/.test(path))
    return `has a space, a zero or a question mark; give a path without, ${like}`
  if (/\/(\.{0,2})\//.test(path) || /\/\.{1,2}$/.test(path))
    return 'is not the shortest way to write that path; leave out "//", "/./" and "/../"'
  return Buffer.byteLength(path) > mostPathBytes
    ? `is longer than the ${mostPathBytes} bytes that the path of a socket may have`
    : ''
}
