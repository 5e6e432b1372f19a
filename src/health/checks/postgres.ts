import { show } from '../../util/printable.ts'
import { type CheckOutcome, denied, failed, passed, quote } from '../check.ts'
import type { Check } from '../check-option.ts'
import type { Reply, Script } from '../conversation.ts'

/** Length, and the number by which a server knows it from a StartupMessage. */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** More than any error takes. */
const mostBytes = 16 * 1024

/**
 * Up is what answers a StartupMessage, if only by asking for a password: the connection ends
 * there, which PostgreSQL does not log. It is the first message to be answered by whether
 * clients are served (57P03 while it starts up), and what pg_isready sends. An SSLRequest
 * goes before it, as a server may refuse, and log, any other way to begin.
 */
export const postgresScript = (check: Check): Script => {
  let hasSentStartup = false
  return {
    opening: sslRequest,
    mostBytes,
    receive: bytes => {
      if (hasSentStartup) return startupReply(bytes)
      hasSentStartup = true
      const send = startupMessage(check)
      if (bytes[0] === 0x53) return { used: 1, send, secure: true }
      if (bytes[0] === 0x4e) return { used: 1, send }
      // A server that can't serve this one says so at once.
      return startupReply(bytes)
    },
  }
}

/** PostgreSQL always has that role. */
const startupMessage = ({ user = 'postgres', database = user }: Check): Buffer => {
  const fields = { user, database, application_name: 'usher-check' }
  const text = `${Object.entries(fields).flat().join('\0')}\0\0`
  const message = Buffer.alloc(8 + Buffer.byteLength(text))
  message.writeUInt32BE(message.length, 0)
  message.writeUInt32BE(0x0003_0000, 4) // version 3.0
  message.write(text, 8)
  return message
}

/** AuthenticationRequest, NegotiateProtocolVersion or a notice: it has got past 57P03. */
const answers = new Set(['R', 'v', 'N'])

const startupReply = (bytes: Buffer): Reply | undefined => {
  const type = bytes.toString('latin1', 0, 1)
  if (type !== 'E' && !answers.has(type)) return { outcome: notPostgres(bytes) }
  if (bytes.length < 5) return undefined
  const length = bytes.readUInt32BE(1)
  if (length < 4 || length > mostBytes) return { outcome: notPostgres(bytes) }
  if (answers.has(type)) return { outcome: passed }
  return bytes.length < 1 + length
    ? undefined
    : { outcome: errorOutcome(bytes.subarray(5, 1 + length)) }
}

const notPostgres = (bytes: Buffer): CheckOutcome =>
  failed(`answered ${quote(bytes)}, which is not PostgreSQL`)

/** Fields of a letter and a text each: C is the SQLSTATE, M the message. */
const errorOutcome = (body: Buffer): CheckOutcome => {
  const fields = body.toString('utf8').split('\0')
  const field = (letter: string): string =>
    fields.find(text => text.startsWith(letter))?.slice(1) ?? ''
  const [state, message] = [field('C'), field('M')]
  if (state.startsWith('57P0')) return denied(`${show(message)} (${state})`)
  // 28: the role, its password or pg_hba.conf; 3D: the database. Each is a line of its log.
  const isRefused = state.startsWith('28') || state.startsWith('3D')
  if (!isRefused) return passed
  return {
    ok: true,
    note: `each one is refused, and logged: ${show(message)}; give one that is not: postgres://USER@/DATABASE`,
  }
}
