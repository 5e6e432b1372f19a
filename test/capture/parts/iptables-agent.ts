import { spawn } from 'node:child_process'
import type * as dgramModule from 'node:dgram'
import type * as netModule from 'node:net'
import type * as readlineModule from 'node:readline'
import { createInterface } from 'node:readline'
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

type Request =
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

export const startAgent = ({ prefix }: Netns): Agent => {
  const [command, ...args] = [...prefix, process.execPath, '-e']
  const child = spawn(command, [...args, `(${program.toString()})(require)`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
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

/** Runs in a process of its own: nothing from outside of it is there. */
const program = (load: NodeJS.Require): void => {
  const net = load('node:net') as typeof netModule
  const dgram = load('node:dgram') as typeof dgramModule
  const readline = load('node:readline') as typeof readlineModule
  const open = new Set<{ close(): unknown }>()
  const typeOf = (address: string) => (address.includes(':') ? 'udp6' : 'udp4')

  const serve = (address: string, port: number): Promise<unknown> => {
    const server = net.createServer(socket => socket.on('error', () => {}).end(`${port}`))
    const udp = dgram.createSocket(typeOf(address))
    udp.on('message', (_, from) => udp.send(`${port}`, from.port, from.address))
    open.add(server).add(udp)
    return Promise.all([
      new Promise<void>(done => server.listen(port, address, done)),
      new Promise<void>(done => udp.bind(port, address, done)),
    ])
  }
  const outcome = ({ code }: NodeJS.ErrnoException): string =>
    code === 'ECONNREFUSED' ? 'refused' : (code ?? 'error')
  const askTcp = (host: string, port: number, ms: number): Promise<string> =>
    new Promise(resolve => {
      const socket = net.connect({ host, port })
      const timer = setTimeout(() => end('silent'), ms)
      const end = (answer: string): void => {
        clearTimeout(timer)
        socket.destroy()
        resolve(answer)
      }
      socket.on('data', data => end(data.toString()))
      socket.on('error', error => end(outcome(error)))
    })
  const askUdp = (address: string, port: number, ms: number): Promise<string> =>
    new Promise(resolve => {
      const socket = dgram.createSocket(typeOf(address))
      const timer = setTimeout(() => end('silent'), ms)
      const end = (answer: string): void => {
        clearTimeout(timer)
        socket.close()
        resolve(answer)
      }
      socket.on('message', data => end(data.toString()))
      socket.on('error', error => end(outcome(error)))
      socket.connect(port, address, () => socket.send('?'))
    })
  const answerTo = async (request: Request): Promise<string> => {
    if (request.op === 'ask') {
      const ask = request.protocol === 'TCP' ? askTcp : askUdp
      return ask(request.address, request.port, request.ms)
    }
    if (request.op === 'serve')
      await Promise.all(request.ports.map(port => serve(request.address, port)))
    else for (const one of open) one.close()
    if (request.op === 'unserve') open.clear()
    return ''
  }
  readline.createInterface({ input: process.stdin }).on('line', line => {
    const request = JSON.parse(line) as Request & { id: number }
    void answerTo(request).then(answer =>
      process.stdout.write(`${JSON.stringify({ id: request.id, answer })}\n`),
    )
  })
}
