import { type CheckOutcome, denied, failed, passed, quote, unchecked } from '../check.ts'
import type { Check } from '../check-option.ts'
import type { Script } from '../conversation.ts'

/** As RESP has it. */
const command = (...args: readonly string[]): string =>
  [
    `*${args.length}`,
    ...args.flatMap(arg => [`$${Buffer.byteLength(arg)}`, arg]),
    '',
  ].join('\r\n')

/** Errors of a server that serves no client now; with any other it is there and answers. */
const down = new Set(['LOADING', 'MASTERDOWN', 'BUSY', 'DENIED', 'CLUSTERDOWN'])

const roles = { master: 'primary', slave: 'replica' } as const

/**
 * Up is what answers a PING, also with NOAUTH. A role is asked for as well: a PING first, as ROLE is
 * answered while data are loaded, too. `password`: sent first, and no answer to it is repeated.
 */
export const redisScript = ({ role, user }: Check, password?: string): Script => {
  const asksAuth = password !== undefined
  const auth = asksAuth ? command('AUTH', ...(user ? [user] : []), password) : ''
  let isLoggedIn = !asksAuth
  let refusal = ''
  let isPinged = false
  return {
    opening: Buffer.from(
      auth + command('PING') + (role === undefined ? '' : command('ROLE')),
    ),
    mostBytes: 4096,
    receive: bytes => {
      const end = bytes.indexOf('\r\n')
      if (end === -1) return undefined
      const line = bytes.toString('latin1', 0, end)
      // It is there, and serves those that it has; as what is not known.
      if (line.startsWith('-ERR max number of clients'))
        return { outcome: role === undefined ? passed : unchecked(line.slice(1)) }
      if (isPinged) {
        const outcome = roleOutcome(bytes, role)
        return outcome && { outcome: withRefusal(outcome, refusal) }
      }
      if (!isLoggedIn) {
        isLoggedIn = true
        refusal =
          line === '+OK' ? '' : (/^-([A-Z]{2,20})\b/.exec(line)?.[1] ?? 'no answer')
        return { used: end + 2 }
      }
      isPinged = true
      const outcome = withRefusal(pingOutcome(line), refusal)
      if (role === undefined) return { used: end + 2, outcome }
      return outcome.ok ? { used: end + 2 } : { outcome }
    },
  }
}

const withRefusal = (outcome: CheckOutcome, refusal: string): CheckOutcome => {
  if (refusal === '') return outcome
  const note = `the login is refused: ${refusal}`
  return outcome.ok
    ? { ok: true, note }
    : { ...outcome, reason: `${outcome.reason}; ${note}` }
}

const pingOutcome = (line: string): CheckOutcome => {
  if (line === '+PONG') return passed
  const [, code = ''] = /^-([A-Z]+)\b/.exec(line) ?? []
  const reason = `answered ${quote(Buffer.from(line, 'latin1'))} to PING`
  if (code === '') return failed(reason)
  return down.has(code) ? denied(reason) : passed
}

const roleOutcome = (
  bytes: Buffer,
  wanted: string | undefined,
): CheckOutcome | undefined => {
  const text = bytes.toString('latin1', 0, 40)
  const [, name = ''] = /^\*\d+\r\n\$\d+\r\n([a-z]+)\r\n/.exec(text) ?? []
  const role = name === 'master' || name === 'slave' ? roles[name] : name
  if (role === wanted) return passed
  if (role !== '') return denied(`is ${role}, expected ${wanted}`)
  if (text.startsWith('*') && bytes.length < 40) return undefined
  return failed(`answered ${quote(bytes)} to ROLE`)
}
