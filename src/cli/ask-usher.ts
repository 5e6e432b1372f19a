import {
  type IncomingMessage,
  type RequestOptions,
  request as httpRequest,
} from 'node:http'
import * as v from 'valibot'
import type { Command } from '../config/commands.ts'
import {
  type AnswerOf,
  type ControlCommand,
  controlCommands,
  type GivenRequest,
  refused,
} from '../observe/control-protocol.ts'
import { givenSocket, trustProblem } from '../observe/control-socket-file.ts'
import { type StatusDocument, type StatusOf, statusSchema } from '../observe/status.ts'
import { textOf } from '../util/read-text.ts'
import { errorOf, hasCode, UsherError, errorCode } from '../util/usher-error.ts'
import { type Io, visible } from './io.ts'
import { version } from './version.ts'

/** Where an Usher is asked: at its control socket, unless that is '', else at its metrics address. */
export interface Where {
  readonly controlSocket: string
  /** `host:port`. */
  readonly address: string
}

export interface Asked<T> {
  readonly document: T
  /** The document as it came, with fields this version does not know. */
  readonly raw: unknown
}

/** Usher answers within 10 s, also when an order has not come into effect by then. */
const commandMs = 15_000
const statusMs = 10_000
/** The status of 10 000 ServicePorts with 10 endpoints has 20 MB. */
const longestAnswer = 256 << 20
/** Characters. */
const longestRefusal = 2000

/** Its status. Rejects with NO_ANSWER. */
export const askStatus = async (
  where: Where,
  timeoutMs = statusMs,
): Promise<Asked<StatusDocument>> =>
  ask(where, { path: '/status', schema: statusSchema, timeoutMs })

/**
 * The same with that of each ServicePort which `shape` has, and no more; endpoints that are alike come
 * together. Rejects with NO_ANSWER.
 */
export const askPorts = async <E extends v.ObjectEntries>(
  where: Where,
  shape: v.ObjectSchema<E, undefined>,
  timeoutMs = statusMs,
): Promise<StatusOf<v.InferOutput<typeof shape>>> => {
  const path = `/status?alike&fields=${Object.keys(shape.entries).join(',')}`
  const schema = v.object({ ...statusSchema.entries, servicePorts: v.array(shape) })
  return (await ask(where, { path, schema, timeoutMs })).document
}

/**
 * The answer to a command. At the metrics address there are only those that ask, and only for
 * clients on its host. Rejects with NO_ANSWER, at `stop` too, or with ORDER_REFUSED and Usher's own words.
 */
export const askCommand = async <C extends ControlCommand>(
  where: Where,
  command: C,
  request: GivenRequest<C>,
  stop?: AbortSignal,
): Promise<AnswerOf<C>> => {
  const schema = controlCommands[command].answer
  const timeoutMs = commandMs
  const question =
    where.controlSocket === ''
      ? { path: `/${command}?${queryOf(request)}`, schema, timeoutMs }
      : { path: `/${command}`, body: JSON.stringify(request), schema, timeoutMs }
  return (await ask(where, question, stop)).document as AnswerOf<C>
}

/**
 * The exit code of what asks an Usher. Without an answer it is 3, and 1 where that is a refusal, or
 * there is nothing of a name; the reason is printed.
 */
export const exitCodeOf = async (
  command: Command,
  io: Io,
  asks: () => Promise<number>,
): Promise<number> => {
  try {
    return await asks()
  } catch (error) {
    if (!hasCode(error, 'NO_ANSWER', 'ORDER_REFUSED', 'NOT_FOUND')) throw error
    io.err(`usher ${command}: ${visible(error.message)}\n`)
    return hasCode(error, 'NO_ANSWER') ? 3 : 1
  }
}

const queryOf = (request: object): string => {
  const fields: readonly (readonly [string, unknown])[] = Object.entries(request)
  const given = fields.flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, String(one)]),
  )
  return new URLSearchParams(given).toString()
}

interface Question<S> {
  readonly path: string
  /** It is posted. */
  readonly body?: string
  readonly schema: S
  readonly timeoutMs: number
}

const ask = async <S extends v.GenericSchema>(
  where: Where,
  question: Question<S>,
  stop?: AbortSignal,
): Promise<Asked<v.InferOutput<S>>> => {
  const { path, body, schema, timeoutMs } = question
  const late = AbortSignal.timeout(timeoutMs)
  const signal = stop === undefined ? late : AbortSignal.any([late, stop])
  try {
    return decode(schema, await send(reachedBy(where, path), body, signal))
  } catch (error) {
    if (hasCode(error, 'ORDER_REFUSED')) throw error
    const cause = errorOf(error)
    const doubt = hasCode(error, 'NO_ANSWER') ? '' : ' Is Usher running?'
    const reason = late.aborted
      ? `no answer within ${timeoutMs / 1000} s`
      : reasonOf(cause)
    const again = body !== undefined && (late.aborted || isCut(cause))
    throw noAnswer(textOfFailure(where, path, reason, doubt) + (again ? askAgain : ''), {
      cause,
    })
  }
}

const noAnswer = (reason: string, options?: ErrorOptions): UsherError =>
  new UsherError('NO_ANSWER', reason, options)

const textOfFailure = (
  { controlSocket, address }: Where,
  path: string,
  reason: string,
  doubt: string,
): string =>
  controlSocket === ''
    ? `http://${address}${path.split('?', 1)[0]}: ${reason}.${doubt} --address must be its --metrics-bind-address`
    : `${givenSocket(controlSocket)}: ${reason}`

const askAgain = '; ask again, as the order may have been carried out'

const reachedBy = ({ controlSocket, address }: Where, path: string): RequestOptions => {
  if (controlSocket === '') {
    const { hostname, port } = new URL(`http://${address}`)
    return { host: hostname.replace(/^\[|\]$/g, ''), port, path }
  }
  const reason = trustProblem(controlSocket)
  if (reason !== '') throw noAnswer(reason)
  return { socketPath: controlSocket, path }
}

const reasonOf = (error: NodeJS.ErrnoException): string => {
  const code = errorCode(error)
  if (code === 'EACCES')
    return 'permission denied: only root and the user that runs Usher may connect'
  if (code === 'ECONNREFUSED') return `${error.message}: nothing listens on it`
  if (isCut(error))
    return 'the connection was closed without an answer, which Usher does when it is ending or already has 32 requests'
  return error.message || code
}

const isCut = (error: Error): boolean =>
  ['EPIPE', 'ECONNRESET'].includes(errorCode(error))

interface Reply {
  readonly status: number
  readonly body: string
}

const send = (
  to: RequestOptions,
  body: string | undefined,
  signal: AbortSignal,
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const post = body !== undefined && {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
      },
    }
    // No agent: a kept-alive connection would keep this process from ending.
    const sent = httpRequest({ ...to, ...post, signal, agent: false })
    sent.on('response', response => void read(response).then(resolve, reject))
    sent.on('error', reject)
    sent.end(body)
  })

const read = async (response: IncomingMessage): Promise<Reply> => {
  const body = await textOf(response, longestAnswer)
  if (body === undefined) throw new Error('its answer is too long')
  return { status: response.statusCode ?? 0, body }
}

const decode = <S extends v.GenericSchema>(
  schema: S,
  { status, body }: Reply,
): Asked<v.InferOutput<S>> => {
  let raw: unknown
  try {
    raw = JSON.parse(body)
  } catch {
    // As the server says what is not an order's outcome, or a stranger whatever it likes.
    const shown = body.trim().slice(0, 300) || 'an empty answer'
    throw noAnswer(
      status === 200
        ? 'its answer is not JSON, so it is not Usher'
        : `it answered ${status} (${shown}), so it is not Usher, or not the right address of it`,
    )
  }
  const refusal = v.safeParse(refused, raw)
  if (refusal.success) throw refusalOf(refusal.output.error.message)
  const ports = portsOfOwn(raw)
  const result = v.safeParse(
    schema,
    ports ? { ...(raw as object), servicePorts: ports.slice(0, 1) } : raw,
  )
  if (status === 200 && result.success) {
    const { output } = result
    const document = ports ? { ...(output as object), servicePorts: ports } : output
    return { document, raw }
  }
  const [issue] = result.issues ?? []
  const field = issue === undefined ? `status ${status}` : fieldOf(issue)
  throw noAnswer(
    `this usher does not understand its answer (${field}): use the usher that runs there, or the same version`,
  )
}

/**
 * Of a status that an Usher of this very version tells: its ServicePorts. What the first is the others are,
 * all fields are there, and 10 000 of them take longer to check than all else.
 */
const portsOfOwn = (raw: unknown): readonly unknown[] | undefined => {
  const { version: theirs, servicePorts: ports }: Readonly<Record<string, unknown>> = {
    ...(raw as object),
  }
  return theirs === version() && Array.isArray(ports) ? ports : undefined
}

/** It may be a stranger's. */
const refusalOf = (message: string): UsherError =>
  new UsherError(
    'ORDER_REFUSED',
    message.length > longestRefusal ? `${message.slice(0, longestRefusal)}...` : message,
  )

const fieldOf = (issue: v.BaseIssue<unknown>): string =>
  `${v.getDotPath(issue) ?? 'the whole answer'}: ${issue.message}`
