import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { dial, echoBackend, firstWord, namedBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'
import { accepts, runs } from './supervised-fixture.ts'

const program = fileURLToPath(new URL('supervised-parent.ts', import.meta.url))
const skip = process.platform === 'win32' && 'process groups are not to be had there'

/** The data plane and the process that started it, when somebody ends that one. */
export const supervisedParentTests = (t: Test): void => {
  t.test('a data plane does not outlive its parent', { skip }, async t => {
    const { endpoint } = await namedBackend(t, 'a')
    const { parent, pid, port } = await startParent(t, endpoint.port)
    t.equal(await firstWord(port), 'a')
    parent.kill('SIGKILL')
    await until('gone', () => !runs(pid))
    t.equal(await firstWord(port), 'ECONNREFUSED')
  })

  t.test('Ctrl-C reaches both, and connections may end', { skip }, async t => {
    const { endpoint } = await echoBackend(t)
    const { parent, pid, port } = await startParent(t, endpoint.port)
    const client = dial(t, port)
    client.write('x')
    await once(client, 'data')
    const ended = once(parent, 'exit')
    for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM'] as const)
      process.kill(signal === 'SIGINT' ? -(parent.pid ?? 0) : pid, signal)
    t.match(await once(parent, 'message'), [{ draining: true }])
    await until('closed', async () => !(await accepts(port)))
    client.end('y')
    t.equal(String(await once(client, 'data')), 'y')
    t.strictSame(await ended, [0, null], 'nothing keeps it')
    t.equal(runs(pid), false)
  })
}

interface Parent {
  readonly parent: ChildProcess
  /** Of the data plane. */
  readonly pid: number
  readonly port: number
}

/** In a process group of its own; killed when the test ends. */
const startParent = async (t: Test, backend: number): Promise<Parent> => {
  const port = await freeTcpPort()
  const args = ['--import', 'tsx', program, testHost, `${port}`, `${backend}`]
  const { PATH } = process.env
  const parent = spawn(process.execPath, args, {
    env: { PATH },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  })
  t.teardown(() => parent.kill('SIGKILL'))
  const [{ pid }] = (await once(parent, 'message')) as [{ pid: number }]
  return { parent, pid, port }
}
