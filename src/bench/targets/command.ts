import { spawn } from 'node:child_process'
import { backendNames, type Ports, protocolOf } from '../backends/backend.ts'
import { stopProcess } from '../process/child.ts'
import { chooseFreePorts } from './free-ports.ts'
import { waitUntilServing } from './ready.ts'
import type { RunningTarget, Target } from './target.ts'

const readyWithinMs = 15_000
const keptOutput = 4096

/**
 * A proxy that is a program: `command` and its arguments, to which a `--route` for each
 * backend is added (`tcp://LISTEN=BACKEND`, as `usher sidecar` takes them).
 */
export const commandTarget = (name: string, command: readonly string[]): Target => ({
  name,
  start: async (backends, signal) => {
    const ports = await chooseFreePorts()
    const argv = [...command, ...routeFlags(ports, backends)]
    return startCommand(name, argv, ports, signal)
  },
})

export const routeFlags = (ports: Ports, backends: Ports): string[] =>
  backendNames.flatMap(backend => [
    '--route',
    `${protocolOf(backend)}://127.0.0.1:${ports[backend]}=127.0.0.1:${backends[backend]}`,
  ])

const startCommand = async (
  name: string,
  [program = '', ...args]: readonly string[],
  ports: Ports,
  signal: AbortSignal,
): Promise<RunningTarget> => {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new AbortController()
  let output = ''
  const keep = (text: Buffer | string): void => {
    output = (output + text.toString()).slice(-keptOutput)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  child.once('error', error => {
    keep(error.message)
    ended.abort()
  })
  child.once('exit', () => ended.abort())

  const stop = AbortSignal.any([ended.signal, signal])
  const serving = await waitUntilServing(ports, readyWithinMs, stop)
  if (!serving || child.pid === undefined) {
    const why = ended.signal.aborted ? 'ended' : `did not serve in ${readyWithinMs} ms`
    if (child.pid !== undefined) await stopProcess(child)
    throw new Error(`${name} ${why}: ${output.trim() || 'it said nothing'}`)
  }
  return {
    ports,
    pid: child.pid,
    complaint: () => {
      const how = child.exitCode ?? child.signalCode
      const written = output.trim().split('\n').at(-1) ?? ''
      return [how === null ? '' : `ended (${how})`, written].filter(Boolean).join(': ')
    },
    stop: () => stopProcess(child),
  }
}
