import * as v from 'valibot'
import { modeNames } from '../mode/mode.ts'
import type { StatusDocument } from '../observe/status.ts'

const text = v.string()
const number = v.number()

const vip = v.object({
  kind: v.picklist(['ClusterIP', 'ExternalIP', 'LoadBalancerIP', 'NodePort']),
  vip: text,
  capture: v.picklist([
    'nftables',
    'iptables',
    'local',
    'none',
    'kernel',
    'not captured',
  ]),
  listen: text,
  state: v.picklist([
    'listening',
    'forwarding',
    'binding',
    'refusing',
    'failed',
    'not captured',
  ]),
  reason: text,
})

/** An older Usher says only that an endpoint is used, not for which clients. */
const endpoint = v.pipe(
  v.object({
    endpoint: text,
    state: v.picklist(['ready', 'terminating', 'not ready']),
    eligible: v.boolean(),
    clients: v.optional(text),
    active: number,
    failures: number,
    resting: v.optional(v.boolean(), false),
  }),
  v.transform(({ clients, ...rest }) => ({
    ...rest,
    clients: clients ?? (rest.eligible ? 'all' : 'none'),
  })),
)

const verdict = v.picklist(['forward', 'reject', 'drop'])
const verdicts = v.object({ internal: verdict, external: verdict, node: verdict })

const servicePort = v.object({
  servicePort: text,
  protocol: v.picklist(['TCP', 'UDP']),
  family: v.picklist(['IPv4', 'IPv6']),
  affinityMs: number,
  verdicts: v.optional(verdicts, {
    internal: 'forward',
    external: 'forward',
    node: 'forward',
  }),
  sourceRanges: v.optional(v.nullable(v.array(text)), null),
  vips: v.array(vip),
  endpoints: v.array(endpoint),
  active: number,
  accepted: number,
  failed: number,
  retries: number,
  bytesToBackend: number,
  bytesToClient: number,
  datagrams: number,
  lastError: text,
})

/** JSON leaves an undefined `lastGoodAt` out; the document has it as undefined. */
const source = v.pipe(
  v.object({
    name: text,
    synced: v.boolean(),
    lastGoodAt: v.optional(number),
    error: text,
  }),
  v.transform(({ lastGoodAt, ...rest }) => ({ ...rest, lastGoodAt })),
)

const passedOver = v.array(v.object({ name: text, detail: text }))
const capture = v.object({ name: text, detail: text, passedOver })
const modeChoice = v.object({ name: text, askedBy: text, detail: text, passedOver })
const relay = v.object({
  name: text,
  detail: text,
  workers: number,
  ownProcess: v.optional(v.nullable(v.object({ privileges: text, excess: text })), null),
  passedOver,
})

/** What `/status` answers. Fields it does not know, of a later Usher, are left out. */
export const statusSchema: v.GenericSchema<unknown, StatusDocument> = v.object({
  version: text,
  mode: v.picklist(modeNames),
  modeChoice: v.optional(v.nullable(modeChoice), null),
  startedAt: text,
  healthy: v.boolean(),
  unhealthy: v.array(text),
  draining: v.boolean(),
  node: v.optional(
    v.nullable(v.object({ name: text, zone: text, notEligible: v.optional(text, '') })),
    null,
  ),
  source,
  capture: v.optional(v.nullable(capture), null),
  relay: v.optional(v.nullable(relay), null),
  problems: v.array(v.object({ object: text, field: text, message: text })),
  fds: v.object({ used: number, limit: number }),
  acceptPaused: v.boolean(),
  servicePorts: v.array(servicePort),
})
