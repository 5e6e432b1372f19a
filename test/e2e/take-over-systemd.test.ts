// A process of its own: it starts a systemd, in namespaces of that.
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { usherProgram } from '../support/usher-program.ts'
import { missingPrograms } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { until } from '../support/until.ts'

const execute = promisify(execFile)
const systemd = '/usr/lib/systemd/systemd'
const skip =
  linuxRelaySkip() ||
  missingPrograms('unshare', 'nsenter', 'systemctl', 'ip') ||
  (!existsSync(systemd) && 'systemd is not installed') ||
  (process.getuid?.() !== 0 && 'only root may start a systemd')

const unitFile = fileURLToPath(
  new URL('../../deploy/systemd/usher-sidecar@.service', import.meta.url),
)

/** What is there of a unit but how it is confined, which is another test's. */
const kept =
  /^(Type|NotifyAccess|EnvironmentFile|ExecStart|ExecReload|WatchdogSec|KillMode|TimeoutStopSec|RuntimeDirectory.*|Restart.*|SuccessExitStatus)=/

/** The unit of the project, for a program and files elsewhere. */
const unitText = async (directory: string): Promise<string> => {
  const lines = (await readFile(unitFile, 'utf8'))
    .split('\n')
    .filter(one => kept.test(one))
  const text = lines
    .join('\n')
    .replaceAll('/usr/bin/usher', `${process.execPath} ${usherProgram}`)
    .replaceAll('/etc/usher/', `${directory}/`)
  return `[Unit]\nDefaultDependencies=no\n[Service]\n${text}
StandardOutput=append:${directory}/log
StandardError=append:${directory}/log
`
}

/** Clients and a server in the namespace: what they have seen is asked for by a line on stdin. */
const program = `
const { connect, createServer } = require('node:net')
createServer(one => { one.on('error', () => {}); one.pipe(one) }).listen(9000, '127.0.0.1')
const seen = { echoes: 0, cut: 0, served: 0, refused: 0 }
const clients = []
const dial = () => {
  const one = connect(8000, '127.0.0.1')
  one.on('error', () => {})
  one.on('data', () => (seen.echoes += 1))
  one.on('close', () => (seen.cut += 1))
  clients.push(one)
}
const visit = () => {
  const one = connect(8000, '127.0.0.1')
  one.on('error', () => (seen.refused += 1))
  one.on('data', () => { seen.served += 1; one.end() })
  one.on('close', () => setTimeout(visit, 5))
  one.write('x')
}
require('node:readline').createInterface(process.stdin).on('line', word => {
  if (word === 'dial') { for (let i = 0; i < 50; i += 1) dial(); visit() }
  if (word === 'say') for (const one of clients) one.write('y')
  console.log(JSON.stringify(seen))
})
`

/** A systemd with nothing but this unit; ended with the test, and all that it has started. */
const startSystemd = async (t: Test, directory: string) => {
  const script = `
set -e
mount --make-rprivate /
mount -t proc proc /proc
for path in /tmp /run /var/tmp /var/log; do mount -t tmpfs tmpfs $path; done
ip link set lo up
mkdir -p /run/systemd/system
cp ${directory}/*.service ${directory}/t.target /run/systemd/system/
exec env -i PATH="$PATH" container=test ${systemd} --system --unit=t.target --log-target=null`
  const child = spawn(
    'unshare',
    [
      '--pid',
      '--fork',
      '--kill-child',
      '--mount',
      '--net',
      '--cgroup',
      'sh',
      '-c',
      script,
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise(resolve => child.once('close', resolve))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const children = `/proc/${child.pid}/task/${child.pid}/children`
  let pid = ''
  await until('it has begun', async () => {
    pid = (await readFile(children, 'utf8')).trim()
    return pid !== ''
  })
  const inside = ['-t', pid, '-p', '-m', '-n']
  const systemctl = async (...args: string[]): Promise<string> =>
    (await execute('nsenter', [...inside, 'systemctl', ...args], { timeout: 60_000 }))
      .stdout
  await until('it runs', async () => {
    const state = await systemctl('is-system-running').catch(
      ({ stdout }: { readonly stdout: string }) => stdout,
    )
    return /running|degraded/.test(state)
  })
  return { inside, systemctl }
}

t.test('systemctl reload has another version take over', { skip }, async t => {
  const directory = t.testdir({
    't.target': '[Unit]\nDefaultDependencies=no\n',
    'db.yaml':
      'routes: [{name: db, listen: "tcp://127.0.0.1:8000", endpoints: ["127.0.0.1:9000"]}]',
  })
  await writeFile(join(directory, 'usher-sidecar@.service'), await unitText(directory))
  const { inside, systemctl } = await startSystemd(t, directory)
  const clients = spawn('nsenter', [...inside, process.execPath, '-e', program])
  t.teardown(() => clients.kill('SIGKILL'))
  let seen: Readonly<Record<string, number>> = {}
  createInterface(clients.stdout).on('line', line => {
    seen = JSON.parse(line) as typeof seen
  })
  const ask = (word: string): void => void clients.stdin.write(`${word}\n`)
  const unit = 'usher-sidecar@db'
  const show = async (name: string): Promise<string> =>
    (await systemctl('show', unit, '--value', '-p', name)).trim()

  const logged = (): Promise<string> => readFile(join(directory, 'log'), 'utf8')
  await systemctl('start', unit).catch(async (error: unknown) => {
    throw new Error(`${String(error)}: ${await logged()}`)
  })
  const first = await show('MainPID')
  ask('dial')
  const echoes = async (count: number): Promise<void> => {
    ask('say')
    await until('all have an echo', () => {
      ask('')
      return seen['echoes'] === count || (seen['cut'] ?? 0) > 0
    })
  }
  await echoes(50)

  await systemctl('reload', unit)
  t.equal(await show('MainPID'), first, 'of the same version it reads its file again')
  // With other flags than it was started with.
  for (let turn = 1; turn <= 2; turn += 1) {
    await writeFile(join(directory, 'db.env'), `USHER_ARGS='--drain-timeout ${turn}s'\n`)
    const before = await show('MainPID')
    await systemctl('reload', unit)
    t.not(await show('MainPID'), before)
    await echoes(50 * (turn + 1))
  }
  ask('')
  t.match(seen, { cut: 0, refused: 0 })
  t.equal(await show('NRestarts'), '0')
  await systemctl('stop', unit)
  t.equal(await show('Result'), 'success', 'it waits for the end of the new one')
  const log = await logged()
  t.equal(log.match(/took over 5\d connections of PID/g)?.length, 2 * 2, log)
})
