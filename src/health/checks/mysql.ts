import { show } from '../../util/printable.ts'
import { type CheckOutcome, denied, failed, passed, quote } from '../check.ts'
import type { Check } from '../check-option.ts'
import type { Reply, Script } from '../conversation.ts'

/** More than a greeting or an error takes. */
const mostBytes = 4096

/** Questions of authentication that are answered without a password before it gives up. */
const mostQuestions = 4

const errors = { tooManyConnections: 1040, shutdown: 1053 } as const

/**
 * Up is what takes a login, or refuses it: a whole one, without a password. A client that
 * leaves before is counted by the server (Aborted_connects), and after max_connect_errors of those
 * refused for good, which would be all clients that come through Usher; nothing less than a
 * login, not even COM_QUIT, is taken for a good end. One that is refused blocks no client, yet is
 * counted: the account should exist.
 */
export const mysqlScript = ({ user = 'usher' }: Check): Script => {
  let isGreeted = false
  let questions = 0
  return {
    mostBytes,
    receive: bytes => {
      if (bytes.length < 5) return undefined
      const end = 4 + bytes.readUIntLE(0, 3)
      if (end < 5 || end > mostBytes) return { outcome: notMysql(bytes) }
      if (bytes.length < end) return undefined
      const next = (bytes.readUInt8(3) + 1) & 0xff
      const body = bytes.subarray(4, end)
      if (!isGreeted) {
        isGreeted = true
        return greetingReply(body) ?? { used: end, send: packet(next, login(user)) }
      }
      const outcome = loginOutcome(body, user)
      if (outcome !== undefined) return { outcome, ...(body[0] === 0 && { send: quit }) }
      questions += 1
      if (questions > mostQuestions) return { outcome: notMysql(bytes) }
      return { used: end, send: packet(next, noPassword(body)) }
    },
  }
}

const packet = (sequence: number, body: Uint8Array): Buffer => {
  const header = Buffer.alloc(4)
  header.writeUIntLE(body.length, 0, 3)
  header.writeUInt8(sequence, 3)
  return Buffer.concat([header, body])
}

/** COM_QUIT. */
const quit = packet(0, Buffer.from([1]))

const notMysql = (bytes: Buffer): CheckOutcome =>
  failed(`answered ${quote(bytes)}, which is not MySQL`)

/** The tenth version of the protocol, since 1998; or an error in its place. */
const greetingReply = (body: Buffer): Reply | undefined => {
  if (body[0] === 10) return undefined
  if (body[0] !== 0xff) return { outcome: notMysql(body) }
  const { code, message } = errorOf(body)
  // It is there, and serves those that it has.
  if (code === errors.tooManyConnections) return { outcome: passed }
  return { outcome: denied(`${show(message)} (${code})`) }
}

/** HandshakeResponse41 of CLIENT_LONG_PASSWORD, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH. */
const login = (user: string): Buffer => {
  const head = Buffer.alloc(32)
  head.writeUInt32LE(0x1 | 0x200 | 0x8000 | 0x8_0000, 0)
  head.writeUInt32LE(0x100_0000, 4) // the largest packet
  head.writeUInt8(33, 8) // UTF-8
  return Buffer.concat([head, Buffer.from(`${user}\0\0mysql_native_password\0`)])
}

/** What each plugin takes for no password at all: a zero with SHA-2, else nothing. */
const noPassword = (question: Buffer): Buffer =>
  question.includes('sha2_password') ? Buffer.alloc(1) : Buffer.alloc(0)

/** As SQL has it. */
const quoted = (user: string): string => `'${user.replace(/['\\]/g, '\\$&')}'`

/** Undefined for a question: another plugin (0xfe), or more (0x01). */
const loginOutcome = (body: Buffer, user: string): CheckOutcome | undefined => {
  if (body[0] === 0) return passed
  if (body[0] === 1 || body[0] === 0xfe) return undefined
  if (body[0] !== 0xff) return notMysql(body)
  const { code, message } = errorOf(body)
  if (code === errors.shutdown) return denied(`${show(message)} (${code})`)
  return {
    ok: true,
    note: `each one counts as a failed login: ${show(message)} (${code}); make an account without rights: CREATE USER ${quoted(user)}@'%'`,
  }
}

/** A code, a SQLSTATE if there is one, and a message. */
const errorOf = (body: Buffer): { code: number; message: string } => ({
  code: body.length < 3 ? 0 : body.readUInt16LE(1),
  message: body.toString('utf8', body[3] === 0x23 ? 9 : 3),
})
