import { readFileSync } from 'node:fs'

/** What a process may do besides what every process may. */
export interface Privileges {
  /** Its user. */
  readonly uid: number
  /** Its capabilities (permitted) as bits; see capabilities(7). */
  readonly capabilities: bigint
  /** Nothing that it starts can have more (PR_SET_NO_NEW_PRIVS). */
  readonly noNewPrivileges: boolean
}

/** The only one that a relay has a use for: it listens below port 1024. */
export const netBindService = 10
/** To end a process of another user. */
export const killOthers = 5
export const setGid = 6
export const setUid = 7
export const setPcap = 8

export const hasCapability = ({ capabilities }: Privileges, bit: number): boolean =>
  ((capabilities >> BigInt(bit)) & 1n) === 1n

/** Those of this process's main thread; undefined where the system doesn't tell. */
export const ownPrivileges = (): Privileges | undefined => {
  if (process.platform !== 'linux') return undefined // And so no capabilities either.
  try {
    return parsePrivileges(readFileSync('/proc/self/status', 'utf8'))
  } catch {
    return undefined
  }
}

/** From the text of /proc/PID/status. */
export const parsePrivileges = (status: string): Privileges | undefined => {
  const uid = /^Uid:\s+(\d+)/m.exec(status)?.[1]
  const permitted = /^CapPrm:\s+([0-9a-f]+)$/m.exec(status)?.[1]
  if (uid === undefined || permitted === undefined) return undefined
  return {
    uid: Number(uid),
    capabilities: BigInt(`0x${permitted}`),
    noNewPrivileges: /^NoNewPrivs:\s+1$/m.test(status),
  }
}

/** Whether it could do something that no relay has to. */
export const isExcessive = (privileges: Privileges): boolean =>
  privileges.uid === 0 || unneeded(privileges) > 0

/** `user 2071510256 with CAP_NET_BIND_SERVICE only`. */
export const privilegesText = (privileges: Privileges): string => {
  const user = privileges.uid === 0 ? 'root' : `user ${privileges.uid}`
  const more = unneeded(privileges)
  const one = hasCapability(privileges, netBindService)
  if (more > 0) return `${user} with ${more + Number(one)} capabilities`
  return `${user} with ${one ? 'CAP_NET_BIND_SERVICE only' : 'no capabilities'}`
}

const unneeded = ({ capabilities }: Privileges): number =>
  (capabilities & ~(1n << BigInt(netBindService))).toString(2).replaceAll('0', '').length
