import { counterCell, dialBuckets, holdBuckets } from '../counters.ts'
import type { MovedConnection, MovedSide } from './moved.ts'

/** What a value must be; an object: each of its fields. What is there besides is of no harm. */
type Shape = ((value: unknown) => boolean) | { readonly [field: string]: Shape }

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

const fits = (value: unknown, shape: Shape): boolean =>
  typeof shape === 'function'
    ? shape(value)
    : isObject(value) &&
      Object.entries(shape).every(([field, own]) => fits(value[field], own))

const text = (value: unknown): boolean => typeof value === 'string'
const flag = (value: unknown): boolean => typeof value === 'boolean'
const number = (value: unknown): boolean => Number.isFinite(value)
const count = (value: unknown): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0
const optional =
  (shape: Shape) =>
  (value: unknown): boolean =>
    value === undefined || fits(value, shape)
const listOf =
  (shape: Shape) =>
  (value: unknown): boolean =>
    Array.isArray(value) && value.every(one => fits(one, shape))
const recordOf =
  (shape: Shape) =>
  (value: unknown): boolean =>
    isObject(value) && Object.values(value).every(one => fits(one, shape))
const oneOf =
  (...words: readonly unknown[]) =>
  (value: unknown): boolean =>
    words.includes(value)

const port = (value: unknown): boolean => count(value) && (value as number) <= 65_535
const addressPort = { address: text, port }

const side = {
  flags: count,
  bytes: count,
  piped: count,
  held: optional(text),
  replay: optional(text),
}

/** Words of a struct sockaddr: at least those of an IPv4 one. */
const peer = (value: unknown): boolean =>
  listOf(number)(value) && (value as readonly number[]).length >= 2

const connection = {
  listener: text,
  endpoint: { key: text, ...addressPort },
  peer,
  acceptedMs: number,
  connectedMs: number,
  heldMs: number,
  queuedMs: number,
  awaitsAnswer: flag,
  asksTls: flag,
  attempts: listOf({ endpoint: text, result: text, ms: number, unservedAfter: number }),
  client: side,
  backend: side,
  ttl: optional(number),
  dialled: optional(addressPort),
  header: optional(text),
  halfClosedMs: optional(number),
  quietMs: optional(number),
}

const remembered = (value: unknown): boolean =>
  Array.isArray(value) && text(value[0]) && text(value[1]) && number(value[2])

const flow = {
  endpoint: { key: text, ...addressPort },
  name: peer,
  destination: optional(listOf(number)),
  ttl: number,
  idleMs: number,
  answered: flag,
  hasRequest: flag,
  hasReply: flag,
  refusedBy: optional(listOf(text)),
  left: optional(number),
}

const spread = (value: unknown): boolean =>
  oneOf('any', 'by-client')(value) || count(value)

/** With one more for what is above all bounds. */
const bucketsOf =
  (bounds: readonly number[]) =>
  (value: unknown): boolean =>
    listOf(number)(value) && (value as readonly number[]).length === bounds.length + 1

/** An older version may have fewer. */
const counters = {
  ...Object.fromEntries(
    Object.keys(counterCell.plain).map(name => [name, optional(number)]),
  ),
  failed: recordOf(number),
  datagramsDropped: recordOf(number),
  dialSeconds: bucketsOf(dialBuckets),
  holdSeconds: bucketsOf(holdBuckets),
}

const counted = listOf({
  listener: text,
  counters,
  endpoints: listOf({ key: text, failures: number, retransmits: optional(number) }),
})

/** By kind, without what is of no kind here. */
const shapes: Readonly<Record<string, Shape>> = {
  /** Also of another format. */
  take: { format: count, workers: count, room: number },
  ready: { listeners: listOf(text), binds: listOf(text), room: number },
  'not-kept': { reason: text },
  refused: { reason: text },
  sockets: {
    sockets: listOf({
      listener: text,
      protocol: oneOf('TCP', 'UDP'),
      bind: addressPort,
      spread,
      fds: count,
    }),
  },
  yours: { counted },
  affinity: {
    affinity: listOf({
      listener: text,
      socket: count,
      of: count,
      clients: listOf(remembered),
    }),
  },
  connections: { connections: listOf(connection) },
  flows: { flows: listOf(flow), isLast: flag, bind: addressPort, socket: count },
  'flows-given': { binds: listOf(text) },
  over: { staying: recordOf(count), counted },
}

/** Why a message can't be understood; '' when it can, or is of a kind that is not known here. */
export const faultOf = (value: unknown): string => {
  const { kind } = isObject(value) ? value : {}
  if (typeof kind !== 'string') return 'the other process says what is no message'
  const shape = Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
  return shape === undefined || fits(value, shape)
    ? ''
    : `what the other process says with "${kind}" is not understood`
}

/** Descriptors that travel with connections. */
export const fdsOfConnections = (connections: readonly MovedConnection[]): number =>
  connections.reduce(
    (sum, { client, backend }) => sum + 2 + pipeEndsOf(client) + pipeEndsOf(backend),
    0,
  )

const pipeEndsOf = ({ piped }: MovedSide): number => (piped > 0 ? 2 : 0)
