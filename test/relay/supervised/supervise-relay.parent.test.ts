import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { missingPrograms } from '../../support/installed.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { dial, echoBackend, firstWord, namedBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'
import { accepts, runs } from './fixture.ts'
import { typescript } from '../../support/typescript.ts'

const program = fileURLToPath(new URL('parent.ts', import.meta.url))
const otherUser = ['--reuid=40000', '--regid=40000', '--clear-groups']

/** Why no data plane of another user can be started here; '' when one can. */
const otherUserProblem = (): string => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root'
  const missing = missingPrograms('setpriv')
  if (missing !== '') return missing
  const { status } = spawnSync('setpriv', [...otherUser, 'test', '-x', process.execPath])
  return status === 0 ? '' : `other users may not run ${process.execPath}`
}
const skip = process.platform === 'win32' && 'process groups are not to be had there'

interface Parent {
  readonly parent: ChildProcess
  /** Of the data plane. */
  readonly pid: number
  readonly port: number
}

interface Start {
  /** What starts the parent, and what the data plane; Node alone by default. */
  readonly before?: readonly string[]
  readonly launcher?: readonly string[]
}

/** In a process group of its own; killed when the test ends. */
const startParent = async (
  t: Test,
  backend: number,
  { before = [], launcher = [] }: Start = {},
): Promise<Parent> => {
  const port = await freeTcpPort()
  const args = [program, testHost, `${port}`, `${backend}`, ...launcher]
  const [file = '', ...line] = [...before, process.execPath, typescript, ...args]
  const { PATH } = process.env
  const parent = spawn(file, line, {
    env: { PATH },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    detached: true,
  })
  t.teardown(() => parent.kill('SIGKILL'))
  const [{ pid }] = (await once(parent, 'message')) as [{ pid: number }]
  return { parent, pid, port }
}

/** The data plane and the process that started it, when somebody ends that one. */
t.test('the parent of a data plane', async t => {
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

  t.test(
    'a data plane that may not be killed ends its parent',
    { skip: otherUserProblem() || false },
    async t => {
      const { endpoint } = await namedBackend(t, 'a')
      const { parent, pid } = await startParent(t, endpoint.port, {
        before: ['setpriv', '--inh-caps=-all', '--bounding-set=-all,+setuid,+setgid'],
        launcher: ['setpriv', ...otherUser],
      })
      const ended = once(parent, 'exit')
      process.kill(pid, 'SIGSTOP')
      t.teardown(() => process.kill(pid, 'SIGKILL'))
      const [{ fault }] = (await once(parent, 'message')) as [{ fault: string }]
      t.equal(
        fault,
        `the data plane (process ${pid}) can't be killed, though it did not respond for 10 s: kill EPERM; Usher ends so that it is started again`,
      )
      t.strictSame(await ended, [1, null])
    },
  )
})
