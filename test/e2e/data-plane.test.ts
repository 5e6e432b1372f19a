// A process of its own: long, and it mostly waits.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { processTree } from '../../bench/process/usage.ts'
import { missingPrograms } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { manifestFile, service } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { typescript } from '../support/typescript.ts'
import { until } from '../support/until.ts'
import { get, launchUsherBy, startUsherBy, type Usher } from '../support/usher.ts'
import { commandOf, dataPlanes, serving } from '../support/data-plane.ts'

t.jobs = 2

/** The data plane's, as docs/relay.md gives it. */
const ownUser = '2071510256'

const skip = process.platform !== 'linux' && 'looks into /proc'
const rootSkip =
  skip || (process.getuid?.() !== 0 && 'needs root') || missingPrograms('setpriv')

/** Starts a program as Kubernetes does with UID 0 and these capabilities. */
const container = (capabilities: string): readonly string[] => [
  'setpriv',
  '--inh-caps=-all',
  `--bounding-set=-all,${capabilities}`,
]

/** The data plane, which does nothing any more; killed when the test ends. */
const stopped = (t: Test, usher: Usher): number => {
  const [pid = 0] = dataPlanes(usher.pid)
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => {
    if (commandOf(pid).length > 1) process.kill(pid, 'SIGKILL')
  })
  return pid
}

for (const relay of ['linux', 'portable'] as const)
  t.test(`run --relay ${relay} has it in a process of its own`, { skip }, async t => {
    const usher = await serving(t, await freeTcpPort(), [`--relay=${relay}`])
    const [pid = 0, ...others] = dataPlanes(usher.pid)
    t.not(pid, 0)
    t.strictSame(others, [])
    const mapped = (of: number) => readFileSync(`/proc/${of}/maps`, 'utf8')
    t.notMatch(mapped(usher.pid), 'koffi', 'no native code where the cluster is known')
    if (relay === 'linux') t.match(mapped(pid), 'koffi')
  })

t.test(
  'the data plane may do nothing that it has no use for',
  { skip: rootSkip },
  async t => {
    // A port that only root, or who has CAP_NET_BIND_SERVICE, listens on.
    const usher = await serving(
      t,
      987,
      [],
      [
        'env',
        'KUBECONFIG=/nowhere',
        'HTTPS_PROXY=http://user:secret@192.0.2.1',
        'NODE_OPTIONS=--no-warnings',
      ],
    )
    const [pid = 0] = dataPlanes(usher.pid)
    const threads = readdirSync(`/proc/${pid}/task`)
    t.ok(threads.length > 5)
    for (const thread of threads) {
      const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
      const of = (name: string) =>
        new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(status)?.[1]
      const all = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map(of)
      t.strictSame([...new Set(all)], ['0000000000000400'], 'CAP_NET_BIND_SERVICE')
      t.strictSame(
        [of('Uid'), of('NoNewPrivs')],
        [Array(4).fill(ownUser).join('\t'), '1'],
      )
      t.equal(of('Groups')?.trim(), '')
    }
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8')
    const names = environment.split('\0').map(line => line.split('=', 1).join(''))
    const needed = /^(PATH|LD_LIBRARY_PATH|NODE_CHANNEL_(FD|SERIALIZATION_MODE)|)$/
    t.strictSame(
      names.filter(name => !needed.test(name)),
      [],
    )
    t.strictSame(sharedWith(usher.pid, pid), [], 'only the log is that of both')
    t.match((await usher.status()).relay, {
      ownProcess: {
        privileges: `user ${ownUser} with CAP_NET_BIND_SERVICE only`,
        excess: '',
      },
    })
  },
)

t.test(
  'nobody else on the node may join its listening sockets',
  { skip: rootSkip || linuxRelaySkip() },
  async t => {
    const port = await freeTcpPort()
    await serving(t, port, ['--relay=linux', '--relay-workers=2'])
    t.equal(joins(port, '65532'), 'EADDRINUSE', 'the user of most containers')
    t.equal(joins(port, ownUser), 'joined', 'only the same user may')
  },
)

/** What a user gets who binds a port that others have by SO_REUSEPORT: `joined`, or an error. */
const joins = (port: number, user: string): string => {
  const source = (name: string) =>
    JSON.stringify(new URL(`../../src/${name}.ts`, import.meta.url).href)
  const code = `
    import { loadSyscalls } from ${source('ffi/syscalls')}
    import { writeSockaddr } from ${source('relay/engine/sockaddr')}
    import { systemError } from ${source('ffi/errno')}
    import * as c from ${source('ffi/constants')}
    const calls = loadSyscalls()
    const memory = calls.allocate(64)
    const fd = calls.socket(c.AF_INET, c.SOCK_STREAM, 0)
    memory.view.setInt32(32, 1, true)
    calls.setsockopt(fd, c.SOL_SOCKET, c.SO_REUSEPORT, memory.address + 32, 4)
    const length = writeSockaddr(memory, 0, ${JSON.stringify(testHost)}, ${port})
    const result = calls.bind(fd, memory.address, length)
    process.stdout.write(result < 0 ? systemError('bind', result).code : 'joined')`
  const as = [`--reuid=${user}`, `--regid=${user}`, '--clear-groups']
  const node = [process.execPath, typescript, '--input-type=module', '-e', code]
  return spawnSync('setpriv', [...as, ...node], { encoding: 'utf8' }).stdout
}

/** Sockets, pipes and files that both have open, other than the standard streams. */
const sharedWith = (one: number, other: number): readonly string[] => {
  const open = (pid: number): ReadonlyMap<string, string> =>
    new Map(
      readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
        const file = linkOf(join(`/proc/${pid}/fd`, fd))
        return Number(fd) > 2 && /^(socket|pipe|\/)/.test(file) ? [[file, fd]] : []
      }),
    )
  const theirs = open(other)
  // What was passed on to the tests, and by them, belongs to neither.
  const given = new Set(open(process.pid).keys())
  return [...open(one).keys()].filter(
    file => theirs.has(file) && !given.has(file) && file !== '/dev/null',
  )
}

const linkOf = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch {
    return '' // The descriptor of the directory itself.
  }
}

t.test(
  'without the right to take them away, privileges are told of',
  { skip: rootSkip },
  async t => {
    const few = ['setpriv', '--bounding-set=-all,+net_bind_service', '--inh-caps=-all']
    const usher = await serving(t, await freeTcpPort(), [], few)
    t.match(await usher.logged(/privileges it does not need/), {
      level: 'warn',
      why: 'to give it a user of its own takes CAP_SETUID, CAP_SETGID and CAP_KILL',
    })
    t.match((await usher.status()).relay, { ownProcess: { excess: /CAP_KILL/ } })
  },
)

for (const signal of ['SIGKILL', 'SIGSEGV'] as const)
  t.test(`after ${signal} another data plane serves`, { skip }, async t => {
    const port = await freeTcpPort()
    const usher = await serving(t, port)
    const [first = 0] = dataPlanes(usher.pid)
    process.kill(first, signal)
    await usher.logged('fault in the relay')
    await until('served again', async () => (await ask(port)).text === 'a')
    const [second = 0] = dataPlanes(usher.pid)
    t.not(second, first)
    t.match(
      (await get(usher.metrics, '/metrics')).body,
      '\nusher_data_plane_restarts_total 1\n',
    )
    t.equal((await get(usher.healthz, '/healthz')).status, 200)
  })

/** What Usher may do, besides what every UID 0 may. */
const starts = {
  "with all of root's powers": [],
  'with CAP_KILL': container(
    '+net_admin,+net_raw,+net_bind_service,+setuid,+setgid,+kill',
  ),
  'without CAP_KILL': container('+net_admin,+net_raw,+net_bind_service,+setuid,+setgid'),
} as const

for (const [how, before] of Object.entries(starts)) {
  t.test(
    `${how}, a killed Usher takes a data plane along that hears nothing`,
    { skip: rootSkip },
    async t => {
      const port = await freeTcpPort()
      const usher = await serving(t, port, [], before)
      const pid = stopped(t, usher)
      // Its main thread can't notice that the channel is closed.
      usher.send('SIGKILL')
      await until('gone', () => commandOf(pid).length <= 1)
      await usher.exit
      // A process that ends has no command any more before its sockets are closed.
      await until('refused', async () => (await ask(port)).how === 'ECONNREFUSED')
    },
  )

  t.test(
    `${how}, a data plane that gives no sign of life is replaced`,
    { skip: rootSkip },
    async t => {
      const port = await freeTcpPort()
      const usher = await serving(t, port, [], before)
      const pid = stopped(t, usher)
      await usher.logged('fault in the relay')
      await until('served again', async () => (await ask(port)).text === 'a')
      t.strictSame(commandOf(pid), [])
      t.not(dataPlanes(usher.pid)[0], pid)
      usher.send('SIGTERM')
      t.strictSame(await usher.exit, { code: 0, signal: null })
    },
  )
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  t.test(
    `${signal} to all of the group, while the data plane starts, is an end in order`,
    { skip: skip || missingPrograms('setsid') },
    async t => {
      const port = await freeTcpPort()
      const file = await manifestFile(t, service('web', testHost, [{ name: 'p', port }]))
      const usher = launchUsherBy(t, ['setsid'], 'run', '--manifests', file.path)
      const isDataPlane = (pid: number) =>
        commandOf(pid).at(-2)?.endsWith('/data-plane.js')
      // Which knows nothing of signals yet, and dies of them.
      await until('the data plane starts', () => processTree(usher.pid).some(isDataPlane))
      process.kill(-usher.pid, signal)
      t.strictSame(await usher.exit, { code: 0, signal: null })
      t.match(usher.records.at(-1), { level: 'info', msg: 'stopped', reason: signal })
    },
  )

const strace = skip || missingPrograms('strace')

t.test(
  'a sidecar starts nothing, in which its relay lives',
  { skip: strace },
  async t => {
    const { endpoint } = await namedBackend(t, 'a')
    const port = await freeTcpPort()
    const out = join(t.testdir({}), 'calls')
    const usher = await startUsherBy(
      t,
      ['strace', '-f', '-qq', '-o', out, '-e', 'trace=execve,fork,vfork,clone,clone3'],
      'sidecar',
      `--route=tcp://${testHost}:${port}=${endpoint.address}:${endpoint.port}`,
    )
    const [, sidecar = 0] = processTree(usher.pid)
    // strace keeps signals to itself.
    t.teardown(() => process.kill(sidecar, 'SIGKILL'))
    t.equal((await ask(port)).text, 'a')
    const calls = readFileSync(out, 'utf8')
      .split('\n')
      .filter(line => line.includes('('))
    const threads = calls.filter(line => line.includes('CLONE_THREAD'))
    t.ok(threads.length > 4, 'calls are seen')
    const others = calls.filter(
      line => !line.includes('CLONE_THREAD') && !/resumed/.test(line),
    )
    t.match(others, [/execve\(.*sidecar/])
    t.equal(others.length, 1)
  },
)
