import { get as httpGet } from 'node:http'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { answer } from './answer.ts'
import { dial } from './dial.ts'
import { type Load, startLoad } from './load.ts'
import { type Connection, openConnection } from './open-connection.ts'
import type { AgentCall } from './outcome.ts'

/*
 * A process inside of one network namespace that dials and answers as it is told: a line
 * of JSON for each call and each result. One process for thousands of connections.
 */

let load: Load | undefined
const connections: Connection[] = []

type Handlers = {
  readonly [O in AgentCall['op']]: (call: Extract<AgentCall, { op: O }>) => unknown
}

const handlers: Handlers = {
  serve: ({ name, addresses, port }) => answer(name, addresses, port),
  dial: call => dial(call, call.timeoutMs),
  get: ({ address, port, path }) => get(address, port, path),
  load: ({ to, pauseMs, timeoutMs }) => void (load = startLoad(to, pauseMs, timeoutMs)),
  'end load': () => load?.end(),
  open: async to => connections.push(await openConnection(to)) - 1,
  ask: ({ connection }) => connections[connection]?.ask(),
}

const handle = async (call: AgentCall): Promise<unknown> =>
  (handlers[call.op] as (call: AgentCall) => unknown)(call)

const get = (host: string, port: number, path: string): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const request = httpGet({ host, port, path, agent: false, timeout: 3000 })
    request.once('timeout', () => request.destroy(new Error(`${host}:${port}: silent`)))
    request.once('error', reject)
    request.once('response', response => {
      const { statusCode: status } = response
      text(response).then(body => resolve({ status, body }), reject)
    })
  })

const send = (message: object): void =>
  void process.stdout.write(`${JSON.stringify(message)}\n`)

const lines = createInterface(process.stdin)
lines.on('line', line => {
  const { id, ...call } = JSON.parse(line) as AgentCall & { readonly id: number }
  handle(call as AgentCall).then(
    result => send({ id, result }),
    (error: unknown) => send({ id, error: String(error) }),
  )
})
lines.on('close', () => process.exit())
send({ id: 0 })
