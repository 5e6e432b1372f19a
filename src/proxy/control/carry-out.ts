import * as v from 'valibot'
import type { Mode } from '../../mode/mode.ts'
import type { OperatorOrders } from '../../mode/operator-orders.ts'
import type { Reconciler } from '../../mode/reconciler.ts'
import type { Answer, Route } from '../../observe/admin-routes.ts'
import {
  type AnswerOf,
  type ControlCommand,
  controlCommands,
  type Refused,
  type RequestOf,
} from '../../observe/control-protocol.ts'
import type { ViewInput } from '../../observe/port-view.ts'
import { jsonPages } from '../../observe/json-pages.ts'
import type { Log } from '../../observe/log.ts'
import type { Place } from '../../model/topology.ts'
import type { HandsOver, NodeClients, Relay } from '../../relay/relay.ts'
import { type Clock, within } from '../../util/clock.ts'
import type { ConnectTimePart } from '../connect-time.ts'
import type { OwnedPort } from '../../capture/proxy-ports.ts'
import type { ProxyOptions, Successor } from '../options.ts'
import { messageOf } from '../../util/usher-error.ts'

/** What carrying out an order takes. */
export interface ControlDeps {
  readonly clock: Clock
  readonly log: Log
  readonly options: Pick<ProxyOptions, 'kernel' | 'version'>
  readonly orders: OperatorOrders
  readonly reconciler: Pick<Reconciler, 'snapshots' | 'applied' | 'resync'>
  readonly mode: Pick<Mode, 'name' | 'placements' | 'inspectCommands' | 'lend'>
  /** In a kernel mode of those Services that it does not carry; undefined where there are none. */
  readonly relay: () => (Pick<Relay, 'query'> & HandsOver) | undefined
  /** How clients come to it; '' while there is none. */
  readonly capture: () => string
  readonly proxyPorts: () => readonly OwnedPort[]
  /** As of `ServiceManager`; undefined where there is none. */
  readonly watchdogMs?: number | undefined
  /** Another Usher serves in this one's place, which is to end. */
  readonly replaced: (by: Successor) => void
  readonly around: Surroundings
}

/** What an explanation goes by besides. */
export interface Surroundings {
  readonly place: () => Place
  readonly nodeClients: () => NodeClients
  /** Asks the relay for its figures. */
  readonly status: () => Promise<ViewInput>
  readonly connectTime: Pick<ConnectTimePart, 'inspectCommands'>
}

export type Handler<C extends ControlCommand> = (
  deps: ControlDeps,
  request: RequestOf<C>,
) => Promise<AnswerOf<C>>

/** An order that is not carried out. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const mostBody = 64 * 1024
/** Less than a client waits for. */
const appliedWithinMs = 10_000

/** A command as a path of the server, and what is done there. */
export const commandRoute = <C extends ControlCommand>(
  command: C,
  handler: Handler<C>,
  deps: ControlDeps,
): readonly [path: string, route: Route] => [
  `/${command}`,
  {
    posted: true,
    mostBody,
    answer: body => answerOf(command, handler, deps, () => jsonOf(body)),
  },
]

/**
 * A command that only asks, as a page: for clients of this host, who have no control socket. The
 * request is its query, with a list's field once for each item.
 */
export const askedRoute = <C extends ControlCommand>(
  command: C,
  handler: Handler<C>,
  deps: ControlDeps,
): readonly [path: string, route: Route] => [
  `/${command}`,
  {
    onlyThisHost: true,
    query: text => text,
    answer: query =>
      answerOf(command, handler, deps, () =>
        queryRequest(controlCommands[command].request.entries, query),
      ),
  },
]

const answerOf = async <C extends ControlCommand>(
  command: C,
  handler: Handler<C>,
  deps: ControlDeps,
  given: () => unknown,
): Promise<Answer> => {
  try {
    const request = checked(controlCommands[command].request, given()) as RequestOf<C>
    return { ...json, status: 200, body: await bodyOf(await handler(deps, request)) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { status, code, message } = error
    const document: Refused = { error: { code, message } }
    return { ...json, status, body: `${JSON.stringify(document)}\n` }
  }
}

const json = { contentType: 'application/json' }

/** The list in it may be long. */
const bodyOf = (answer: object): Promise<readonly Buffer[]> => {
  const entries: readonly (readonly [string, unknown])[] = Object.entries(answer)
  const list = entries.find(([, value]) => Array.isArray(value))
  const head = Object.fromEntries(entries.filter(entry => entry !== list))
  const [name, items] = list ?? ['', []]
  return jsonPages(head, name, textsOf(items as readonly unknown[]))
}

function* textsOf(items: readonly unknown[]): Generator<string> {
  for (const item of items) yield JSON.stringify(item)
}

const bad = (reason: string): Refusal => new Refusal(400, 'BAD_REQUEST', reason)

const jsonOf = (body: string): unknown => {
  try {
    return JSON.parse(body)
  } catch {
    throw bad('the request is not JSON')
  }
}

const checked = (schema: v.GenericSchema, given: unknown): unknown => {
  const result = v.safeParse(schema, given)
  if (result.success) return result.output
  const [issue] = result.issues
  throw bad(`${v.getDotPath(issue) ?? 'the request'}: ${faultOf(issue)}`)
}

/** Valibot has words of its own for a field too few or too many. */
const faultOf = ({ type, expected, message }: v.BaseIssue<unknown>): string => {
  if (type !== 'strict_object') return message
  return expected === 'never' ? 'there is no such field' : 'it has to be given'
}

/** Throws in the kernel modes; `what` can't be done there, in words. */
export const needsUserspace = ({ mode: { name } }: ControlDeps, what: string): void => {
  if (name === 'userspace') return
  const reason = `in ${name} mode the kernel forwards connections, and ${what}; --proxy-mode userspace can`
  throw new Refusal(409, 'KERNEL_MODE', reason)
}

/** The same, but where a relay carries some Services of a kernel mode. */
export const needsRelay = (deps: ControlDeps, what: string): void => {
  if (deps.relay() === undefined) needsUserspace(deps, what)
}

/** Resolves when what was ordered is in effect. */
export const takeEffect = async ({ clock, reconciler }: ControlDeps): Promise<void> => {
  const applied = reconciler.applied().then(
    () => '',
    (error: unknown) => messageOf(error),
  )
  const why = await within(clock, appliedWithinMs, applied)
  if (why === '') return
  const reason =
    why === undefined
      ? `the order is accepted but not in effect yet: it takes longer than ${appliedWithinMs / 1000} s`
      : `it has no effect: ${why}`
  throw new Refusal(503, 'NOT_APPLIED', reason)
}

type Fields = Readonly<Record<string, v.GenericSchema>>

/**
 * A request as the query of a page: a list's field once for each item, `failed` or `failed=true`
 * for what is true or false. Whether the values are right is for its schema to say.
 */
export const queryRequest = (fields: Fields, query: string): unknown => {
  const given = new URLSearchParams(query)
  return Object.fromEntries(
    [...new Set(given.keys())].map(name => [name, valueOf(fields[name], given, name)]),
  )
}

const valueOf = (
  field: v.GenericSchema | undefined,
  given: URLSearchParams,
  name: string,
): unknown => {
  const values = given.getAll(name)
  const type = field === undefined ? '' : typeOf(field)
  if (type === 'array') return values
  if (values.length !== 1) return values
  const [value = ''] = values
  if (type === 'boolean' && ['', 'true', 'false'].includes(value))
    return value !== 'false'
  if (type === 'number' && /^\d+$/.test(value)) return Number(value)
  return value
}

/** Of an optional one, that of what may be given. */
const typeOf = (schema: v.GenericSchema & { readonly wrapped?: unknown }): string =>
  schema.wrapped === undefined ? schema.type : typeOf(schema.wrapped as v.GenericSchema)
