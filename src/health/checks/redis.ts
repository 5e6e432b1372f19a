import { type CheckOf, type CheckOutcome, denied, failed, passed } from '../check.ts'
import type { Script } from '../conversation.ts'
import { quote } from '../failure-words.ts'

const ping = '*1\r\n$4\r\nPING\r\n'
const askRole = '*1\r\n$4\r\nROLE\r\n'

/** Errors of a server that serves no client now; with any other it is there and answers. */
const down = new Set(['LOADING', 'MASTERDOWN', 'BUSY', 'DENIED', 'CLUSTERDOWN'])

const roles = { master: 'primary', slave: 'replica' } as const

/**
 * Up is what answers a PING, also with NOAUTH. A role is asked for as well, and only known
 * where no password is needed: a PING first, as ROLE is answered while data are loaded, too.
 */
export const redisScript = ({ role }: CheckOf<'redis'>): Script => {
  let isPinged = false
  return {
    opening: Buffer.from(role === undefined ? ping : ping + askRole),
    mostBytes: 4096,
    heard: bytes => {
      const end = bytes.indexOf('\r\n')
      if (end === -1) return undefined
      const line = bytes.toString('latin1', 0, end)
      if (isPinged) {
        const outcome = roleOutcome(bytes, role)
        return outcome && { outcome }
      }
      isPinged = true
      const outcome = pingOutcome(line)
      if (role === undefined) return { used: end + 2, outcome }
      return outcome.ok ? { used: end + 2 } : { outcome }
    },
  }
}

const pingOutcome = (line: string): CheckOutcome => {
  if (line === '+PONG') return passed
  const [, code = ''] = /^-([A-Z]+)\b/.exec(line) ?? []
  const why = `answered ${quote(Buffer.from(line, 'latin1'))} to PING`
  if (code === '') return failed(why)
  return down.has(code) ? denied(why) : passed
}

const roleOutcome = (
  bytes: Buffer,
  wanted: string | undefined,
): CheckOutcome | undefined => {
  const text = bytes.toString('latin1', 0, 40)
  const [, name = ''] = /^\*\d+\r\n\$\d+\r\n([a-z]+)\r\n/.exec(text) ?? []
  const role = name === 'master' || name === 'slave' ? roles[name] : name
  if (role === wanted) return passed
  if (role !== '') return denied(`is ${role}, ${wanted} wanted`)
  if (text.startsWith('*') && bytes.length < 40) return undefined
  return failed(`answered ${quote(bytes)} to ROLE`)
}
