import { get as httpGet } from 'node:http'
import { text } from 'node:stream/consumers'
import { answer } from './answer.ts'
import { dial } from './dial.ts'
import { type Load, startLoad } from './load.ts'
import { type Connection, openConnection } from './open-connection.ts'
import type { AgentCall } from './outcome.ts'

export type HandleCall = (call: AgentCall) => Promise<unknown>

type Handlers = {
  readonly [O in AgentCall['op']]: (call: Extract<AgentCall, { op: O }>) => unknown
}

/** What an agent does, in the namespace of its process. */
export const handleCalls = (): HandleCall => {
  let load: Load | undefined
  const connections: Connection[] = []
  const handlers: Handlers = {
    serve: ({ name, addresses, port }) => answer(name, addresses, port),
    dial: call => dial(call, call.timeoutMs),
    get: ({ address, port, path }) => get(address, port, path),
    load: ({ to, pauseMs, timeoutMs }) => void (load = startLoad(to, pauseMs, timeoutMs)),
    'end load': () => load?.end(),
    open: async to => connections.push(await openConnection(to)) - 1,
    ask: ({ connection }) => connections[connection]?.ask(),
    subscribe: ({ connection }) => connections[connection]?.subscribe(),
    heard: ({ connection }) => connections[connection]?.heard(),
    close: ({ connection }) => connections[connection]?.close(),
  }
  return async call => (handlers[call.op] as (call: AgentCall) => unknown)(call)
}

const get = (host: string, port: number, path: string): Promise<unknown> =>
  new Promise((resolve, reject) => {
    // An emulated machine with much to do takes seconds for an answer.
    const request = httpGet({ host, port, path, agent: false, timeout: 20_000 })
    request.once('timeout', () => request.destroy(new Error(`${host}:${port}: silent`)))
    request.once('error', reject)
    request.once('response', response => {
      const { statusCode: status } = response
      text(response).then(body => resolve({ status, body }), reject)
    })
  })
