import * as v from 'valibot'
import type { Mode } from '../mode/mode.ts'
import type { Reconciler } from '../mode/reconciler.ts'
import type { Pauses } from '../mode/pauses.ts'
import type { Answer, Route, Routes } from '../observe/admin-routes.ts'
import {
  type Ordered,
  type PauseRequest,
  pauseRequest,
  type Refused,
  type ResumeRequest,
  resumeRequest,
} from '../observe/control-protocol.ts'
import { type ControlServer, startControlServer } from '../observe/control-server.ts'
import type { Log } from '../observe/log.ts'
import type { Clock } from '../util/clock.ts'
import { messageOf } from '../util/usher-error.ts'
import { within } from '../util/within.ts'
import { namedServicePorts, shortName } from './named-service-ports.ts'
import type { Shared } from './options.ts'

interface ControlDeps {
  readonly clock: Clock
  readonly log: Log
  readonly pauses: Pauses
  readonly reconciler: Pick<Reconciler, 'snapshots' | 'applied'>
  /** Why nothing can be paused, in words; '' where it can. */
  readonly whyNoPauses: () => string
}

const mostBody = 64 * 1024
/** Less than a client waits for. */
const appliedWithinMs = 10_000

/** Listens on the control socket, if there is to be one. Rejects with CANNOT_LISTEN. */
export const startControl = async ({
  options: { controlSocket: path = '' },
  clock,
  log,
  pauses,
  reconciler,
  traffic: { mode },
}: Pick<Shared, 'options' | 'clock' | 'log' | 'pauses'> &
  Pick<ControlDeps, 'reconciler'> & {
    readonly traffic: { readonly mode: Pick<Mode, 'name'> }
  }): Promise<ControlServer | undefined> => {
  if (path === '') return undefined
  const whyNoPauses = (): string =>
    mode.name === 'userspace'
      ? ''
      : `in ${mode.name} mode the kernel forwards connections, and none can be made to wait; --proxy-mode userspace can`
  const routes = controlRoutes({ clock, log, pauses, reconciler, whyNoPauses })
  return startControlServer({ path, routes, log, clock })
}

/** What can be ordered over the control socket, by path. */
const controlRoutes = (deps: ControlDeps): Routes =>
  new Map([
    ['/pause', order(pauseRequest, request => pause(deps, request))],
    ['/resume', order(resumeRequest, request => resume(deps, request))],
  ])

/** An order that is not carried out. */
class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const order = <S extends v.GenericSchema>(
  schema: S,
  carryOut: (request: v.InferOutput<S>) => Promise<Ordered>,
): Route => ({
  posted: true,
  mostBody,
  answer: async body => {
    try {
      return json(200, await carryOut(read(schema, body)))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const { status, code, message } = error
      return json(status, { error: { code, message } })
    }
  },
})

const json = (status: number, document: Ordered | Refused): Answer => ({
  status,
  contentType: 'application/json',
  body: `${JSON.stringify(document)}\n`,
})

const bad = (why: string): Refusal => new Refusal(400, 'BAD_REQUEST', why)

const read = <S extends v.GenericSchema>(schema: S, body: string): v.InferOutput<S> => {
  let given: unknown
  try {
    given = JSON.parse(body)
  } catch {
    throw bad('the request is not JSON')
  }
  const result = v.safeParse(schema, given)
  if (result.success) return result.output
  const [issue] = result.issues
  throw bad(`${v.getDotPath(issue) ?? 'the request'}: ${issue.message}`)
}

const pause = (deps: ControlDeps, request: PauseRequest): Promise<Ordered> => {
  const { reset, forMs } = request
  return change(deps, request, name => {
    deps.pauses.pause(name, { reset, ms: forMs })
    deps.log.info({ route: shortName(name), reset, forMs }, 'paused by order')
  })
}

const resume = (deps: ControlDeps, request: ResumeRequest): Promise<Ordered> =>
  change(deps, request, name => {
    if (deps.pauses.resume(name))
      deps.log.info({ route: shortName(name) }, 'resumed by order')
  })

/** Changes each ServicePort that is meant, or none; answers when that is in effect. */
const change = async (
  { clock, pauses, reconciler, whyNoPauses }: ControlDeps,
  { routes }: ResumeRequest,
  make: (name: string) => void,
): Promise<Ordered> => {
  const whyNot = whyNoPauses()
  if (whyNot !== '') throw new Refusal(409, 'KERNEL_MODE', whyNot)
  const { names, notes, unknown, notTcp } = namedServicePorts(
    reconciler.snapshots(),
    routes,
  )
  if (unknown !== undefined) throw new Refusal(404, 'UNKNOWN_ROUTE', unknown)
  if (notTcp !== undefined) throw new Refusal(409, 'NOT_TCP', notTcp)
  const before = new Map(names.map(name => [name, pauses.get(name) !== undefined]))
  for (const name of names) make(name)
  await takeEffect(clock, reconciler)
  return {
    routes: names.map(name => {
      const now = pauses.get(name)
      return {
        route: shortName(name),
        wasPaused: before.get(name) === true,
        paused: now
          ? { since: timeText(now.since), until: now.until ? timeText(now.until) : null }
          : null,
      }
    }),
    notes: [...notes],
  }
}

const takeEffect = async (
  clock: Clock,
  reconciler: Pick<Reconciler, 'applied'>,
): Promise<void> => {
  const applied = reconciler.applied().then(
    () => '',
    (error: unknown) => messageOf(error),
  )
  const why = await within(clock, appliedWithinMs, applied)
  if (why === '') return
  const reason =
    why === undefined
      ? `it is taken and not in effect yet: it takes longer than ${appliedWithinMs / 1000} s`
      : `it has no effect: ${why}`
  throw new Refusal(503, 'NOT_APPLIED', reason)
}

const timeText = (epochMs: number): string => new Date(epochMs).toISOString()
