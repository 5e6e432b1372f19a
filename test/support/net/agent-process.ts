import { createInterface } from 'node:readline'
import { handleCalls } from './handle-call.ts'
import type { AgentCall } from './outcome.ts'

/*
 * A process inside of one network namespace that dials and answers as it is told: a line
 * of JSON for each call and each result. One process for thousands of connections.
 */

const handle = handleCalls()

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
