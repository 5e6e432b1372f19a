import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from './api-error.ts'
import type { Credentials } from './credentials.ts'
import { discover, isKnown } from './discovery.ts'
import { garbageLine } from './events.ts'
import type { Fault } from './faults.ts'
import { list } from './list.ts'
import type { Behaviour } from './options.ts'
import { notServed, refusalOf } from './refusals.ts'
import type { Reply } from './reply.ts'
import type { Resource } from './resources.ts'
import type { Store } from './store.ts'
import type { Target } from './target.ts'
import { Watch } from './watch.ts'
import { notFound, write } from './writes.ts'

/** What requests are answered from. */
export interface Parts {
  readonly store: Store
  readonly behaviour: Behaviour
  readonly credentials: Credentials
  /** The watches that run. */
  readonly watches: Set<Watch>
}

export interface Exchange {
  readonly request: IncomingMessage
  readonly target: Target
  readonly reply: Reply
  readonly fault: Fault | undefined
}

/** Answers one request, or does to it what its fault says. Never rejects. */
export const handle = async (parts: Parts, exchange: Exchange): Promise<void> => {
  const { request, reply, fault } = exchange
  try {
    if (fault?.kind === 'stall') return
    if (fault?.kind === 'half-open') return reply.freeze()
    if (fault?.kind === 'cut' && fault.afterBytes === 0) return reply.cut(fault.how)
    if (fault?.kind === 'delay') await sleep(fault.ms)
    if (fault?.kind === 'status')
      throw refusalOf(fault.code, exchange.target, fault.retryAfterSeconds)
    if (!parts.credentials.admits(request)) throw new ApiError(401, 'Unauthorized')
    await answer(parts, exchange)
  } catch (error) {
    const known = error instanceof ApiError ? error : new ApiError(500, String(error))
    reply.start(known.code, known.headers)
    await reply.write(known.body)
    reply.end()
  }
}

const answer = async (parts: Parts, exchange: Exchange): Promise<void> => {
  const { target, reply, fault, request } = exchange
  const { store, behaviour } = parts
  const { resource, verb } = target
  // kubectl takes an empty OpenAPI document (in protobuf) for "nothing to check".
  if (target.path === '/openapi/v2')
    return send(reply, 200, [''], 'application/octet-stream')
  if (resource === undefined)
    return send(reply, 200, [JSON.stringify(discover(target.path, behaviour))])
  if (behaviour.off.has(resource.plural))
    throw notServed(isKnown(resource.apiVersion, behaviour))
  if (verb === 'watch') return watch(parts, resource, exchange)
  if (verb === 'list')
    return fault?.kind === 'garbage'
      ? send(reply, 200, [garbageLine])
      : send(reply, 200, list(store, resource, target, behaviour))
  if (verb === 'get') {
    const found = store.get(resource, target.namespace, target.name)
    if (found === undefined) throw notFound(resource, target.name)
    return send(reply, 200, [found.json])
  }
  const type = request.headers['content-type'] ?? ''
  const written = write(store, resource, target, await text(request), type)
  return send(reply, written.status, [written.json])
}

const watch = (parts: Parts, resource: Resource, exchange: Exchange): void => {
  const { target, reply, fault } = exchange
  const { store, behaviour, watches } = parts
  const running = new Watch(store, resource, target, behaviour, reply, fault)
  watches.add(running)
  reply.onClose(() => watches.delete(running))
  running.run()
}

const send = async (
  reply: Reply,
  status: number,
  body: Iterable<string>,
  type = 'application/json',
): Promise<void> => {
  reply.start(status, { 'content-type': type })
  for (const piece of body) await reply.write(piece)
  reply.end()
}
