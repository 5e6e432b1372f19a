import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Protocol } from '../../../src/model/service.ts'
import type { Netns } from '../../support/netns.ts'

/** A program in a namespace that answers and asks by TCP and UDP. */
export interface Agent {
  /** Answers each client with the port it came to. */
  serve(address: string, ports: readonly number[]): Promise<void>
  unserve(): Promise<void>
  /** What a client got: `3000`, `refused`, `silent`, or the system's error. */
  ask(protocol: Protocol, address: string, port: number, ms?: number): Promise<string>
}

export type Request =
  | { readonly op: 'serve'; readonly address: string; readonly ports: readonly number[] }
  | { readonly op: 'unserve' }
  | {
      readonly op: 'ask'
      readonly protocol: Protocol
      readonly address: string
      readonly port: number
      readonly ms: number
    }

const silentAfterMs = 500
const program = fileURLToPath(new URL('agent-program.ts', import.meta.url))

export const startAgent = ({ prefix }: Netns): Agent => {
  const [command, ...args] = [...prefix, process.execPath, ...process.execArgv, program]
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const waiting = new Map<number, (answer: string) => void>()
  createInterface({ input: child.stdout }).on('line', line => {
    const { id, answer } = JSON.parse(line) as { id: number; answer: string }
    waiting.get(id)?.(answer)
    waiting.delete(id)
  })
  let last = 0
  const call = (request: Request): Promise<string> =>
    new Promise(resolve => {
      const id = ++last
      waiting.set(id, resolve)
      child.stdin.write(`${JSON.stringify({ id, ...request })}\n`)
    })
  return {
    serve: async (address, ports) => void (await call({ op: 'serve', address, ports })),
    unserve: async () => void (await call({ op: 'unserve' })),
    ask: (protocol, address, port, ms = silentAfterMs) =>
      call({ op: 'ask', protocol, address, port, ms }),
  }
}
