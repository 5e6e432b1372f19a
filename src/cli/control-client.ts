import { request as httpRequest } from 'node:http'
import * as v from 'valibot'
import type { Command } from '../config/commands.ts'
import { UsageError } from '../config/usage-error.ts'
import {
  type AnswerOf,
  type ControlCommand,
  controlCommands,
  type GivenRequest,
  refused,
} from '../observe/control-protocol.ts'
import { whyNotTrusted } from '../observe/control-socket-file.ts'
import { type StatusDocument, statusSchema } from '../observe/status.ts'
import { errorCode } from '../util/error-code.ts'
import { textOf } from '../util/read-text.ts'
import { errorOf, hasCode, UsherError } from '../util/usher-error.ts'
import type { Io } from './io.ts'
import { visible } from './words.ts'

/** Usher answers within 10 s, also when an order has not come into effect by then. */
const timeoutMs = 15_000
/** The status of 10,000 ServicePorts with 10 endpoints has 20 MB. */
const longestAnswer = 256 << 20

/** Where the Usher is that is told. */
export interface Told {
  /** The command of the command line, for what is said. */
  readonly command: Command
  readonly path: string
}

/**
 * Has `Told` carry out a command and hands its answer to `show`, whose exit code this is; 1 with
 * the reason where there is no answer.
 */
export const tell = async <C extends ControlCommand>(
  told: Told,
  command: C,
  request: GivenRequest<C>,
  io: Io,
  show: (answer: AnswerOf<C>) => number,
): Promise<number> =>
  orRefused(told, io, async () => show(await askControl(told.path, command, request)))

/** The answer to a command over the control socket at `path`. Rejects with ORDER_REFUSED. */
export const askControl = async <C extends ControlCommand>(
  path: string,
  command: C,
  request: GivenRequest<C>,
): Promise<AnswerOf<C>> => {
  const body = await answerTo(path, `/${command}`, JSON.stringify(request))
  return decode(path, controlCommands[command].answer, body) as AnswerOf<C>
}

/** The same with the status. */
export const statusOverControl = async (path: string): Promise<StatusDocument> =>
  decode(path, statusSchema, await answerTo(path, '/status', undefined))

const orRefused = async (
  { command, path }: Told,
  io: Io,
  ask: () => Promise<number>,
): Promise<number> => {
  if (path === '')
    throw new UsageError(
      'no control socket given; give --control-socket PATH, as Usher was given it, or set USHER_CONTROL_SOCKET',
      command,
    )
  try {
    return await ask()
  } catch (error) {
    if (!hasCode(error, 'ORDER_REFUSED')) throw error
    io.err(`usher ${command}: ${visible(error.message)}\n`)
    return 1
  }
}

const refusal = (message: string): UsherError => new UsherError('ORDER_REFUSED', message)

/** Rejects with ORDER_REFUSED, and the reason in words. Without a body it is a GET. */
const answerTo = async (
  path: string,
  url: string,
  body: string | undefined,
): Promise<string> => {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const why = whyNotTrusted(path)
    if (why !== '') throw refusal(why)
    return await send(path, url, body, signal)
  } catch (error) {
    const why = signal.aborted
      ? `no answer within ${timeoutMs / 1000} s; ask again, as the order may have been carried out`
      : reasonOf(errorOf(error))
    throw refusal(`${path}: ${why}`)
  }
}

const send = (
  socketPath: string,
  path: string,
  body: string | undefined,
  signal: AbortSignal,
): Promise<string> =>
  new Promise((resolve, reject) => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body ?? ''),
    }
    const method = body === undefined ? 'GET' : 'POST'
    const options = { socketPath, path, method, headers, signal, agent: false }
    const sent = httpRequest(
      options,
      response => void read(response).then(resolve, reject),
    )
    sent.on('error', reject)
    sent.end(body)
  })

const read = async (response: AsyncIterable<Buffer>): Promise<string> => {
  const text = await textOf(response, longestAnswer)
  if (text === undefined) throw refusal('its answer is too long')
  return text
}

const decode = <S extends v.GenericSchema>(
  path: string,
  schema: S,
  body: string,
): v.InferOutput<S> => {
  let raw: unknown
  try {
    raw = JSON.parse(body)
  } catch {
    // As the server says what is not an order's outcome: a path it does not know, a socket that
    // has become another's.
    throw refusal(`${path}: ${body.trim().slice(0, 300) || 'an empty answer'}`)
  }
  const done = v.safeParse(schema, raw)
  if (done.success) return done.output
  const why = v.safeParse(refused, raw)
  throw refusal(
    why.success
      ? why.output.error.message
      : `${path}: this version of usher does not understand its answer`,
  )
}

const reasonOf = (error: NodeJS.ErrnoException): string => {
  const code = errorCode(error)
  if (code === 'EPIPE' || code === 'ECONNRESET')
    return 'Usher has ended the connection without an answer, as it does when it ends or has more than 32 orders at a time; ask again, as the order may have been carried out'
  if (code === 'EACCES') return 'permission denied: only the user that Usher runs as may'
  if (code === 'ECONNREFUSED') return 'nothing listens on it; is Usher running?'
  return hasCode(error, 'ORDER_REFUSED') ? error.message : error.message || code
}
