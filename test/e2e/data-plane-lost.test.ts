// A process of its own: long, and it mostly waits.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { missingPrograms } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { manifestFile, service } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ask } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, launchUsherBy, runUsher, type Usher } from '../support/usher.ts'
import { dataPlanes, serving } from '../support/data-plane.ts'

t.jobs = 2
t.setTimeout(500_000)

const skip =
  (process.platform !== 'linux' && 'looks into /proc') || missingPrograms('setpriv')
const probeSkip = skip || linuxRelaySkip() || missingPrograms('strace')

interface Launcher {
  /** How Usher is started, to find the test's own setpriv, which starts data planes. */
  readonly before: readonly string[]
  /** What it does in place of starting one, in a shell; '' to start it. */
  readonly instead: (shell: string) => void
  /** How many data planes it was to start. */
  readonly starts: () => number
}

const makeLauncher = async (t: Test, shell = ''): Promise<Launcher> => {
  const directory = await tempDirectory(t)
  const path = join(directory, 'setpriv')
  const count = join(directory, 'starts')
  writeFileSync(count, '')
  const system = '/usr/bin:/bin'
  const instead = (text: string): void => {
    const program = `#!/bin/sh
PATH=${system}
case "$*" in
  *' test -r '*) ;;
  *) echo >>${count}; ${text} ;;
esac
exec setpriv "$@"
`
    writeFileSync(`${path}.new`, program, { mode: 0o755 })
    renameSync(`${path}.new`, path)
  }
  instead(shell)
  return {
    before: ['env', `PATH=${directory}:${system}`],
    instead,
    starts: () => readFileSync(count, 'utf8').length,
  }
}

const probes = async ({ healthz }: Usher): Promise<readonly number[]> => {
  const answers = ['/livez', '/healthz'].map(path => get(healthz, path))
  return (await Promise.all(answers)).map(({ status }) => status)
}

const metric = async ({ metrics }: Usher, name: string): Promise<number> => {
  const { body } = await get(metrics, '/metrics')
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(body)?.[1])
}

const deaths = ({ records }: Usher): readonly string[] =>
  records
    .filter(({ msg }) => msg === 'fault in the relay')
    .map(({ err }) => (err as Error).message)

t.test('one that cannot be started again is told of, until it can', { skip }, async t => {
  const { before, instead, starts } = await makeLauncher(t, ':')
  const port = await freeTcpPort()
  // /livez goes by two of them.
  const usher = await serving(t, port, ['--sync-period=4s'], before)
  instead('exit 7')
  const [pid = 0] = dataPlanes(usher.pid)
  const killedAt = performance.now()
  process.kill(pid, 'SIGKILL')
  await until('/healthz is red', async () => (await probes(usher))[1] === 503)
  const redAfter = performance.now() - killedAt
  t.ok(redAfter > 1900 && redAfter < 5000, `red after ${Math.round(redAfter)} ms`)
  t.equal((await ask(port)).how, 'ECONNREFUSED')
  t.match(await usher.status(), {
    healthy: false,
    unhealthy: [/^no data plane has served for \d s: the last one ended with code 7$/],
  })
  await until('/livez too', async () => (await probes(usher))[0] === 503)
  t.ok(performance.now() - killedAt > 7000, 'after two sync periods')
  const { code, out } = await runUsher('status', '--address', usher.metrics)
  t.match(
    { code, out },
    { out: /health +is not healthy: no data plane has served for \d+ s: the last/ },
  )
  t.equal(await metric(usher, 'usher_healthy'), 0)
  const told = deaths(usher)
  t.match(
    told[0],
    /^the data plane was killed by SIGKILL; .* it is started again at once$/,
  )
  for (const [i, most] of [250, 500, 1000].entries()) {
    const pause = / ended with code 7; .* it is started again in (\d+) ms$/
    const ms = Number(pause.exec(told[i + 1] ?? '')?.[1])
    t.ok(ms >= most / 2 && ms <= most, `${ms} of at most ${most} ms`)
  }
  const restarts = await metric(usher, 'usher_data_plane_restarts_total')
  t.ok(Math.abs(restarts - starts()) <= 1 && restarts > 3, `${restarts} were counted`)

  instead(':')
  await until('served again', async () => (await ask(port)).text === 'a')
  await until('green', async () => (await probes(usher)).every(one => one === 200))
  t.match(await usher.status(), { healthy: true, unhealthy: [] })
})

t.test('killed each time that it serves, it turns red', { skip }, async t => {
  const port = await freeTcpPort()
  // Two of the default's are a minute, within which it has served again.
  const usher = await serving(t, port)
  const killing = { on: true, kills: 0 }
  const killer = (async () => {
    for (; killing.on; await sleep(20)) {
      if ((await ask(port)).text !== 'a') continue
      for (const pid of dataPlanes(usher.pid)) process.kill(pid, 'SIGKILL')
      killing.kills += 1
    }
  })()
  const gone = /^no data plane has served for \d+ s: the last one was killed by SIGKILL$/
  const isRed = async () => gone.test((await usher.status()).unhealthy.join())
  // After so many it waits for 2 to 4 s.
  const isRedLate = async () => killing.kills >= 6 && (await isRed())
  await until('red', isRedLate, 40_000).finally(() => (killing.on = false))
  t.strictSame(await probes(usher), [200, 503])
  await killer
  await until('served again', async () => (await ask(port)).text === 'a')
  await until('green', async () => (await probes(usher))[1] === 200)
})

/** As of a seccomp filter, or a fault in native code: only the probe makes this call so early. */
const diesInProbe = (signal: string): string =>
  `exec strace -f -qq -o /dev/null -e trace=splice -e inject=splice:signal=${signal} setpriv "$@"`

for (const signal of ['SIGSEGV', 'SIGSYS'])
  t.test(
    `${signal} while the linux relay is tried: the portable one, and it stays`,
    { skip: probeSkip },
    async t => {
      const { before, instead, starts } = await makeLauncher(t, diesInProbe(signal))
      const port = await freeTcpPort()
      const usher = await serving(t, port, ['--relay=auto'], before)
      const why = [
        { name: 'linux', detail: `the process that tried it was killed by ${signal}` },
      ]
      t.match((await usher.status()).relay, { name: 'portable', passedOver: why })
      t.equal(starts(), 2, 'it was tried once')
      t.strictSame(deaths(usher), [])
      t.strictSame(await probes(usher), [200, 200])
      const { out } = await runUsher('status', '--address', usher.metrics)
      t.match(out, `not linux: the process that tried it was killed by ${signal}`)
      // It would live now. What is asked of it is settled, though.
      instead(':')
      // strace, which takes the other along.
      const [pid = 0] = dataPlanes(usher.pid)
      process.kill(pid, 'SIGKILL')
      await until('another one', () => starts() === 3)
      await until('served again', async () => (await ask(port)).text === 'a')
      t.match((await usher.status()).relay, { name: 'portable', passedOver: why })
    },
  )

const endings = {
  'SIGKILL is no crash of its own': {
    signal: 'SIGKILL',
    flag: '--relay=auto',
    said: /the data plane was killed by SIGKILL/,
  },
  'a crash of what was asked for by name': {
    signal: 'SIGSEGV',
    flag: '--relay=linux',
    said: /--relay linux does not work here: the process that tried it was killed by SIGSEGV/,
  },
} as const

for (const [what, { signal, flag, said }] of Object.entries(endings))
  t.test(`${what}: Usher ends, and says why`, { skip: probeSkip }, async t => {
    const { before, starts } = await makeLauncher(t, diesInProbe(signal))
    const port = await freeTcpPort()
    const file = await manifestFile(t, service('web', testHost, [{ name: 'p', port }]))
    const args = ['run', '--manifests', file.path, flag]
    const usher = launchUsherBy(t, before, ...args)
    t.strictSame(await usher.exit, { code: 1, signal: null })
    t.equal(starts(), 1)
    await t.rejects(usher.logged('serving'), said)
  })
