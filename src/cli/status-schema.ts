import * as v from 'valibot'
import type { StatusDocument } from '../observe/status.ts'

const text = v.string()
const number = v.number()

const vip = v.object({
  kind: v.picklist(['ClusterIP', 'ExternalIP', 'LoadBalancerIP', 'NodePort']),
  vip: text,
  capture: v.picklist(['local', 'none', 'not captured']),
  listen: text,
  state: v.picklist(['listening', 'binding', 'refusing', 'failed', 'not captured']),
  reason: text,
})

const endpoint = v.object({
  endpoint: text,
  state: v.picklist(['ready', 'terminating', 'not ready']),
  eligible: v.boolean(),
  active: number,
  failures: number,
})

const servicePort = v.object({
  servicePort: text,
  protocol: v.picklist(['TCP', 'UDP']),
  family: v.picklist(['IPv4', 'IPv6']),
  affinityMs: number,
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

/** What `/status` answers. Fields it does not know, of a later Usher, are left out. */
export const statusSchema: v.GenericSchema<unknown, StatusDocument> = v.object({
  version: text,
  mode: v.literal('userspace'),
  startedAt: text,
  healthy: v.boolean(),
  unhealthy: v.array(text),
  draining: v.boolean(),
  source,
  problems: v.array(v.object({ object: text, field: text, message: text })),
  fds: v.object({ used: number, limit: number }),
  acceptPaused: v.boolean(),
  servicePorts: v.array(servicePort),
})
