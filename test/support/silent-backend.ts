import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { testHost } from './ports.ts'
import { endpoint } from './relay-fixture.ts'
import type { RelayEndpoint } from '../../src/relay/relay.ts'

/**
 * A backend whose dials never answer, without privileges: a process that listens with the
 * smallest queue and then never accepts, and a queue filled up. The kernel drops further
 * SYNs as if the host were gone.
 */
export const silentBackend = async (t: Test, host = testHost): Promise<RelayEndpoint> => {
  const child = spawn(process.execPath, ['-e', program(host)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const fillers: Socket[] = []
  t.teardown(async () => {
    for (const filler of fillers) filler.destroy()
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const port = await portOf(child)
  const mostFillers = 16
  while (fillers.length < mostFillers) {
    const filler = connect(port, host)
    filler.on('error', () => {})
    fillers.push(filler)
    if (!(await connects(filler))) return endpoint(host, port)
  }
  throw new Error('the queue of the silent backend could not be filled')
}

const program = (host: string): string => `
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: '${host}', backlog: 1 }, () => {
    require('node:fs').writeSync(1, String(server.address().port) + '\\n')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`

const portOf = async ({ stdout }: ChildProcess): Promise<number> => {
  if (stdout === null) throw new Error('no output')
  const [line] = (await once(stdout, 'data')) as [Buffer]
  return Number(line.toString())
}

const connects = (socket: Socket): Promise<boolean> =>
  new Promise(resolve => {
    const timer = setTimeout(() => resolve(false), 300)
    socket.once('connect', () => {
      clearTimeout(timer)
      resolve(true)
    })
  })
