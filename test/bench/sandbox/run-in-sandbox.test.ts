import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runTool } from '../../../src/kernel/run-tool.ts'
import { runInSandbox } from '../../../bench/sandbox/sandbox.ts'
import { kinds } from './kinds.ts'
import { type ProgramRun, startProgram } from './start-program.ts'
import { makeNetns, netnsProblem } from '../../support/netns.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'

const read = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

const namespaceOf = (pid: number | 'self'): string => {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`)
  } catch {
    return ''
  }
}

/**
 * The process in the client's namespace, and process 1 of the sandbox. What moves it there has
 * its words among its own before it has done so.
 */
const inClient = ({ pids }: ProgramRun) =>
  pids().find(
    pid =>
      read(pid, 'cmdline').includes('setInterval(() => 1') &&
      !['', namespaceOf('self')].includes(namespaceOf(pid)),
  )
const first = ({ pids }: ProgramRun) =>
  pids().find(pid => /^NSpid:.*\s1$/m.test(read(pid, 'status')))

const noObserver = await netnsProblem()

/**
 * A link whose other end is in the client's namespace: it goes when, and only when, that
 * namespace is gone.
 */
const observe = async (client: number): Promise<() => Promise<boolean>> => {
  const observer = await makeNetns('watch')
  const link = 'link add name watch type veth peer name watch netns'
  await observer.run('ip', [...link.split(' '), String(client)])
  return () =>
    observer.run('ip', ['link', 'show', 'watch']).then(
      () => false,
      () => true,
    )
}

for (const { kind, why } of kinds) {
  const skip = why !== '' && why

  t.test(`a kill of the outer process ends all (${kind})`, { skip }, async t => {
    const run = startProgram(kind, 'hold')
    await run.says('ready')
    // Looked up once: a list of processes that is read while others come may lack one.
    let client = 0
    await until('it is in the place', () => (client = inClient(run) ?? 0) > 0)
    t.ok(run.pids().length >= 4, 'outer, unshare, inner and its child')
    const isGone = noObserver === '' ? await observe(client) : () => true

    run.outer.kill('SIGKILL')
    await until('no process is left', () => run.pids().length === 0)
    await until("the client's namespace is gone", isGone)
  })

  t.test(`this host is left as it was (${kind})`, { skip }, async t => {
    const run = startProgram(kind, 'hold')
    await run.says('ready')
    const ours = /^(client|pod-\d|lane-\d+)$/
    const links = readdirSync('/sys/class/net')
    t.strictSame(
      links.filter(name => ours.test(name)),
      [],
    )
    const names = await runTool('ip', ['netns', 'list'])
    t.strictSame(
      names.split('\n').filter(name => ours.test(name.split(' ')[0] ?? '')),
      [],
    )
    t.notMatch(readFileSync('/proc/self/mountinfo', 'utf8'), 'usher-bench')
    run.outer.kill('SIGTERM')
    await run.code()
    await until('no process is left', () => run.pids().length === 0)
  })

  t.test(`a kill of the inner process is a failure (${kind})`, { skip }, async t => {
    const run = startProgram(kind, 'wait')
    await run.says('ready')
    process.kill(first(run) ?? 0, 'SIGKILL')
    // unshare(1) of util-linux 2.38 makes 1 of it, by a mistake of its own.
    t.match(await run.code(), /^(1|137)$/)
  })
}

const skip = kinds[0].why !== '' && kinds[0].why

t.test(
  'each signal reaches the inner process once, and its exit code counts',
  { skip },
  async t => {
    const run = startProgram('root', 'handle')
    await run.says('ready')
    run.outer.kill('SIGHUP')
    await run.says('SIGHUP')
    run.outer.kill('SIGINT')
    t.equal(await run.code(), 7)
    t.strictSame(run.lines, ['ready', 'SIGHUP', 'SIGINT'])
  },
)

t.test("a terminal's Ctrl-C reaches the inner process once, too", { skip }, async t => {
  const run = startProgram('root', 'handle', true)
  await run.says('ready')
  process.kill(-(run.outer.pid ?? 0), 'SIGINT')
  t.equal(await run.code(), 7)
  t.strictSame(run.lines, ['ready', 'SIGINT'])
})

t.test('without a handler a signal ends it, as it does elsewhere', { skip }, async t => {
  const run = startProgram('root', 'wait')
  await run.says('ready')
  run.outer.kill('SIGTERM')
  t.equal(await run.code(), 143)
})

t.test('a signal that comes before it listens is not lost', { skip }, async t => {
  const run = startProgram('root', 'late')
  await run.says('started')
  run.outer.kill('SIGTERM')
  t.equal(await run.code(), 143)
})

t.test('the third signal ends it at once', { skip }, async t => {
  const run = startProgram('root', 'handle')
  await run.says('ready')
  run.outer.kill('SIGTERM')
  await until('the first', () => run.lines.length === 2)
  run.outer.kill('SIGTERM')
  await until('the second', () => run.lines.length === 3)
  run.outer.kill('SIGTERM')
  t.equal(await run.code(), 137)
  await until('no process is left', () => run.pids().length === 0)
})

/** Whatever it does, it does it to mounts that nobody else has. */
const tryToPrepare = (how: string): Promise<string> => {
  const program = fileURLToPath(new URL('./sandbox-program.ts', import.meta.url))
  const node = `${process.execPath} ${typescript} ${program}`
  return runTool('unshare', ['--mount', '/bin/sh', '-c', `TRY_PREPARE=1 ${how} ${node}`])
}

const outside = [
  { where: 'that was started otherwise', how: '', words: 'is not set' },
  {
    where: 'that is not process 1',
    how: 'USHER_BENCH_SANDBOX="root mnt:[1]"',
    words: 'should be 1',
  },
  {
    where: 'with the mounts of whoever started it',
    how: 'USHER_BENCH_SANDBOX="root $(readlink /proc/self/ns/mnt)" unshare --pid --fork --kill-child',
    words: 'its mounts are those of the process that started it',
  },
]
for (const { where, how, words } of outside)
  t.test(`nothing is mounted in a process ${where}`, { skip }, async t => {
    const said = await tryToPrepare(how)
    t.match(said, 'not in a sandbox: ')
    t.match(said, words)
  })

t.test('without setpriv it rejects', async t => {
  const path = process.env['PATH']
  t.teardown(() => (process.env['PATH'] = path))
  process.env['PATH'] = '/nonexistent'
  await t.rejects(runInSandbox('user', ['true']), { code: 'ENOENT' })
})
