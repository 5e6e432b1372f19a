import * as v from 'valibot'
import { readBlock } from '../util/address-ranges.ts'
import type { DeepReadonly } from '../util/deep-readonly.ts'
import { isNot, wholeNumber } from '../util/schema.ts'
import { statusShapes } from './status.ts'

// What goes over the control socket: POST with JSON, and JSON for an answer. A command is a row of
// `controlCommands` and has a handler in proxy/control/; fields that a request has and this Usher
// does not know are refused, as an order that is carried out in part is worse than none.

/** Of `namespace/name:port` with the longest that Kubernetes has. */
const longestName = 256

const listOf = (what: string, one: string) =>
  v.pipe(
    v.array(
      v.pipe(
        v.string(isNot(`the name of ${one}`)),
        v.maxLength(longestName, `is longer than ${longestName} characters`),
      ),
      isNot('a list of names'),
    ),
    v.minLength(1, `is empty; name ${one}`),
    v.maxLength(1000, `names more than 1000 ${what}`),
  )

const routes = listOf('routes', 'a route')
/** `ip:port`. */
const endpoints = listOf('endpoints', 'an endpoint')
/** Those of these routes only; without it, of all that have them. */
const ofRoutes = v.optional(routes)

/** 576 h, the longest that a timer can be set to. */
const longestMs = 576 * 3_600_000
const msForm = `a number of milliseconds from 1 to ${longestMs}`
/** When it ends by itself; without it: when it is taken back. */
const forMs = v.optional(wholeNumber(1, longestMs, msForm))

/** In one answer. */
const mostListed = 10_000
/** How many connections are listed at most; the others are counted. */
const limit = v.optional(
  wholeNumber(1, mostListed, `a number from 1 to ${mostListed}`),
  mostListed,
)

const drainCloses = ['none', 'idle', 'all'] as const
export const heaviest = 256

const text = v.string()
/** ISO 8601; null: none. */
const time = v.nullable(text)
/** What was named and could not be, in words. */
const notes = v.array(text)

const endpointOf = {
  /** `namespace/name:port`, or a route's name alone. */
  route: text,
  endpoint: text,
}

const paused = v.object({
  routes: v.array(
    v.object({
      route: text,
      /** Whether it was paused before. */
      wasPaused: v.boolean(),
      /** null: it is not paused. */
      paused: v.nullable(v.object({ since: text, until: time })),
    }),
  ),
  notes,
})

const drained = v.object({
  endpoints: v.array(
    v.object({
      ...endpointOf,
      wasDrained: v.boolean(),
      /** null: it is not drained. */
      drained: v.nullable(
        v.object({ since: text, until: time, close: v.picklist(drainCloses) }),
      ),
    }),
  ),
  notes,
})

const isBlock = (given: string): boolean => readBlock(given) !== undefined
const notABlock = 'has what is neither an IP address nor a block of them, like 10.0.0.0/8'

const connectionStates = ['dialling', 'waiting', 'open', 'ending'] as const

/** An open TCP connection. */
const connection = v.object({
  id: text,
  route: text,
  /** `ip:port`. */
  client: text,
  /** '' while it is connected to none. */
  endpoint: text,
  state: v.picklist(connectionStates),
  /** Milliseconds since its accept. */
  ageMs: v.number(),
  bytesToBackend: v.number(),
  bytesToClient: v.number(),
  /** Milliseconds since something came from either side; null where that is not known. */
  idleMs: v.nullable(v.number()),
})

const attempt = v.object({
  endpoint: text,
  /** `connected`, `refused`, `timeout`, `lost`, ...; as of a connection's record. */
  result: text,
  ms: v.number(),
})

/** A TCP connection that has ended. */
const endedConnection = v.object({
  route: text,
  /** `ip:port`. */
  client: text,
  /** '' where none took it. */
  endpoint: text,
  attempts: v.array(attempt),
  bytesToBackend: v.number(),
  bytesToClient: v.number(),
  /** Milliseconds from its accept to connected, or given up, and to its end. */
  dialMs: v.number(),
  totalMs: v.number(),
  /** ISO 8601. */
  endedAt: text,
  /** `--` where both sides finished; and in words. */
  cause: text,
  causeText: text,
  /** The errno or reason behind an abnormal cause, '' otherwise. */
  detail: text,
})

const mostPerSecond = 1000

/** An endpoint, as a client of the address would find it. */
const explainedEndpoint = v.object({
  endpoint: text,
  /** Such clients get it in its turn, or by chance: nothing is against it but affinity. */
  serves: v.boolean(),
  /** The client would get this one now, or one of several. */
  next: v.boolean(),
  /**
   * '' where it serves. Of the source: `not ready`, `terminating`, `down` (by its check), `not on this
   * node`, `hinted elsewhere`; of the relay: `not listed`, `not known`, `drained`, `other clients`, `cooling down`, `full`,
   * `tier`, `weight` (it is for when others fail).
   */
  reason: text,
  node: text,
  zone: text,
  tier: v.number(),
  weight: v.number(),
  /** Its share where the kernel draws; null: that is not so. */
  chance: v.nullable(v.number()),
  /** Of a relay, from here on: until others are preferred; null: they are not. */
  cooldownUntil: time,
  /** A connection tries it now, after a failure. */
  tried: v.boolean(),
  failures: v.number(),
  /** Its last one. */
  failure: v.nullable(v.object({ why: text, at: text })),
  connections: v.number(),
  /** null: any number. */
  mostConnections: v.nullable(v.number()),
  drained: v.nullable(v.object({ since: text, until: time })),
  /** What its check says; null: it has none. */
  check: v.nullable(text),
  /** Its check finds it down; where it serves all the same, no other is up. */
  isDown: v.boolean(),
})

const ordered = {
  /** `namespace/name:port`. */
  name: text,
  /** `ip:port`; '' where it is about the whole ServicePort. */
  endpoint: text,
  since: v.number(),
  until: v.optional(v.number()),
}

const standingOrder = v.variant('kind', [
  v.object({ kind: v.literal('pause'), ...ordered, reset: v.boolean() }),
  v.object({ kind: v.literal('drain'), ...ordered, close: v.picklist(drainCloses) }),
  v.object({ kind: v.literal('weight'), ...ordered, weight: v.number() }),
])

/** What a client would meet in one worker of the relay. */
const pick = v.object({
  worker: v.number(),
  outcome: v.picklist(['served', 'waits', 'queues', 'refused']),
  why: text,
  /** For how long it may wait. */
  waitMs: v.number(),
  /** Of which it would get one, by chance where there are several. */
  endpoints: v.array(text),
  /** Where it was before, and until when that counts if it does not come; null: nowhere. */
  affinity: v.nullable(v.object({ endpoint: text, until: text })),
})

/** By name: what is asked for at `/name`, and what is answered. */
export const controlCommands = {
  pause: {
    request: v.strictObject({
      routes,
      /** Open connections are reset, too. */
      reset: v.optional(v.boolean(isNot('true or false')), false),
      forMs,
    }),
    answer: paused,
  },
  resume: { request: v.strictObject({ routes }), answer: paused },
  drain: {
    request: v.strictObject({
      endpoints,
      routes: ofRoutes,
      /** Which of its open TCP connections are reset. */
      close: v.optional(v.picklist(drainCloses, isNot('none, idle or all')), 'none'),
      forMs,
    }),
    answer: drained,
  },
  undrain: {
    request: v.strictObject({ endpoints, routes: ofRoutes }),
    answer: drained,
  },
  weight: {
    request: v.strictObject({
      endpoints,
      routes: ofRoutes,
      /** null: what the source says. */
      weight: v.nullable(wholeNumber(0, heaviest, `a number from 0 to ${heaviest}`)),
    }),
    answer: v.object({
      endpoints: v.array(
        v.object({
          ...endpointOf,
          was: v.number(),
          weight: v.number(),
          /** Since when it has one by order; null: it is what the source says. */
          since: time,
        }),
      ),
      notes,
    }),
  },
  connections: {
    request: v.strictObject({ routes: ofRoutes, limit }),
    answer: v.object({
      connections: v.array(connection),
      /** How many more there were. */
      left: v.number(),
      notes,
    }),
  },
  /**
   * Connections as they end, to be asked for again and again: they are kept from the first time on,
   * until nobody has asked for 10 s.
   */
  ended: {
    request: v.strictObject({
      routes,
      /** `next` of the answer before; without it: from now on, so that there are none yet. */
      after: v.optional(v.string(isNot('what was answered as next'))),
      /** Only those that did not end in order. */
      failed: v.optional(v.boolean(isNot('true or false')), false),
      /** Only those of these clients: addresses, or blocks of them. */
      clients: v.optional(
        v.pipe(listOf('clients', 'a client'), v.everyItem(isBlock, notABlock)),
      ),
      /** How many are kept a second, by each worker; others are counted. */
      perSecond: v.optional(
        wholeNumber(1, mostPerSecond, `a number from 1 to ${mostPerSecond}`),
        100,
      ),
      /** The newest are listed. */
      limit,
    }),
    answer: v.object({
      /** In the order in which they ended. */
      connections: v.array(endedConnection),
      /** How many more there were. */
      leftOut: v.number(),
      /**
       * There were others, nobody knows how many: Usher was not asked for 10 s (for 3 s where many ask
       * for different ones), or began anew.
       */
      gap: v.boolean(),
      notes,
      next: text,
    }),
  },
  explain: {
    request: v.strictObject({
      /** An IP address, or `unix:` of who dials a unix socket. */
      client: v.string(isNot('an IP address')),
      /** `ip:port` or `unix:/path`, as it dials. */
      address: v.string(isNot('an IP address with a port')),
      protocol: v.optional(
        v.picklist(['tcp', 'udp', 'sctp'], isNot('tcp, udp or sctp')),
        'tcp',
      ),
    }),
    answer: v.object({
      client: text,
      address: text,
      protocol: text,
      /** `namespace/name:port`, or a route's name alone. */
      route: text,
      /** ClusterIP, ExternalIP, LoadBalancerIP or NodePort, or Route: of a sidecar. */
      addressKind: text,
      /** Of the ServicePort, for all clients, and why; as `usher status` has them. */
      state: statusShapes.state,
      reason: text,
      /** nftables, iptables, local, listen or none: how a client comes to the relay; kernel: it does not. */
      capture: text,
      /** Where the relay listens for it; '' where it does not. */
      listen: text,
      verdict: v.object({
        action: v.picklist(['forward', 'wait', 'refuse', 'drop']),
        why: text,
      }),
      /** How endpoints are chosen. */
      balance: text,
      /** 0: there is none. */
      affinityMs: v.number(),
      /** Of each worker that the client may come to; none in the kernel modes. */
      picks: v.array(pick),
      endpoints: v.array(explainedEndpoint),
      /** Where the kernel has it. */
      looks: v.array(v.object({ what: text, command: text })),
      notes,
    }),
  },
  /** Another Usher on this host takes the place of this one: it is another `usher run` or `usher sidecar` that asks. */
  'take-over': {
    request: v.object({
      version: text,
      pid: v.number(),
      /** False: only whether that would be possible. */
      begin: v.boolean(isNot('true or false')),
      /** It has a relay, which can take over sockets and connections. */
      hasRelay: v.boolean(isNot('true or false')),
    }),
    answer: v.object({
      version: text,
      pid: v.number(),
      /** What it was started with, where, and how soon its service manager takes it for dead; null: never. */
      args: v.array(text),
      directory: text,
      watchdogMs: v.nullable(v.number()),
      /** Where it waits for the other one; '' where it has not begun, or has nothing to hand over. */
      name: text,
      token: text,
      /** How clients come to its relay: as of `status`; '' where there is none. */
      capture: text,
      /** Where that listens for which Services. */
      proxyPorts: v.array(
        v.object({
          id: text,
          protocol: v.picklist(['TCP', 'UDP', 'SCTP']),
          port: v.number(),
        }),
      ),
      /** What operators have ordered of it, which goes on; times in epoch milliseconds. */
      orders: v.array(standingOrder),
      /** Why nothing is handed over: it ends, and lets go of its addresses. '' where all is. */
      refused: text,
    }),
  },
  close: {
    request: v.strictObject({ connections: listOf('connections', 'a connection') }),
    answer: v.object({
      connections: v.array(
        v.object({
          id: text,
          /** False: it had ended, or never was. */
          closed: v.boolean(),
        }),
      ),
    }),
  },
} as const satisfies Readonly<
  Record<string, { readonly request: v.GenericSchema; readonly answer: v.GenericSchema }>
>

/** In place of an answer, with a status from 400 on: nothing was done, unless the code says otherwise. */
export const refused = v.object({
  error: v.object({
    /**
     * `BAD_REQUEST`, `UNKNOWN_ROUTE`, `UNKNOWN_ADDRESS`, `UNKNOWN_ENDPOINT`, `NOT_TCP`, `KERNEL_MODE`, `TOO_MANY`,
     * `NOT_NOW` (it is being taken over already, or is ending), or `NOT_APPLIED`: it was taken, and is not in effect yet, or never will be as Usher is ending.
     */
    code: text,
    message: text,
  }),
})

export type ControlCommand = keyof typeof controlCommands
export type RequestOf<C extends ControlCommand> = DeepReadonly<
  v.InferOutput<(typeof controlCommands)[C]['request']>
>
/** As it may be sent: with what has a default left out. */
export type GivenRequest<C extends ControlCommand> = DeepReadonly<
  v.InferInput<(typeof controlCommands)[C]['request']>
>
export type AnswerOf<C extends ControlCommand> = DeepReadonly<
  v.InferOutput<(typeof controlCommands)[C]['answer']>
>
export type Refused = DeepReadonly<v.InferOutput<typeof refused>>
