// A process of its own: long, and it mostly waits.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { Built, kubernetes, readObjects, top } from '../support/deploy.ts'
import { missingPrograms } from '../support/installed.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { testHost } from '../support/ports.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'

const works = (command: string, ...args: string[]): boolean =>
  spawnSync(command, args).status === 0

/** What Kubernetes makes of a securityContext of UID 0 with these capabilities. */
const privileges = (...capabilities: string[]): string[] => [
  '--no-new-privs',
  '--inh-caps=-all',
  `--bounding-set=${['-all', ...capabilities].join(',')}`,
]

const firstUnprivileged = (): number =>
  Number(readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8'))

const cannotDrop = (): string | false => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root'
  if (firstUnprivileged() < 1024) return 'ports below 1024 are free for all here'
  return works('setpriv', ...privileges('+net_bind_service'), 'true')
    ? false
    : 'setpriv is missing or may not'
}

/** A port below 1024 that nobody has. */
const lowPort = async (): Promise<number> => {
  for (let port = 600; port < 1024; port += 1) {
    const server = createServer().listen(port, testHost)
    const [outcome] = await Promise.race([
      once(server, 'listening').then(() => ['free']),
      once(server, 'error'),
    ])
    server.close()
    if (outcome === 'free') return port
  }
  throw new Error('no port below 1024 is free')
}

/** Serves a Service on a low port with just these capabilities; gives the port. */
const serveLow = async (t: Test, ...capabilities: string[]) => {
  const [port, { endpoint }] = [await lowPort(), await namedBackend(t, 'low')]
  const objects = [service('low', testHost, [{ name: 'p', port }])]
  const file = await manifestFile(t, ...objects, ...slice('low', [endpoint]))
  const usher = [process.execPath, `${top}dist/usher.js`, 'run', '--manifests']
  const off = [
    '--proxy-mode=userspace',
    '--metrics-bind-address=off',
    '--healthz-bind-address=off',
  ]
  const child = spawn(
    'setpriv',
    [...privileges(...capabilities), ...usher, file.path, ...off],
    { stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env['PATH'] } },
  )
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
  let log = ''
  child.stdout.on('data', (data: Buffer) => {
    log += String(data)
  })
  const over = (): boolean => child.exitCode !== null || log.includes('"msg":"serving"')
  await until('Usher serves', over)
  return { port, log }
}

/** What the DaemonSet gives, as setpriv names it. */
const granted = (): readonly string[] => {
  const { usher } = new Built(readObjects(`${kubernetes}/base/daemon-set.yaml`))
  const { capabilities } = usher.securityContext as {
    capabilities: { add: readonly string[] }
  }
  return capabilities.add.map(name => `+${name.toLowerCase()}`)
}

/** `usher check` in a network of its own, with just these capabilities. */
const checkIn = (...capabilities: readonly string[]): string => {
  const usher = [process.execPath, `${top}dist/usher.js`, 'check']
  const args = ['setpriv', ...privileges(...capabilities), ...usher]
  const script = 'ip link set lo up && exec "$@"'
  const all = ['--net', 'sh', '-c', script, 'sh', ...args]
  return spawnSync('unshare', all, { encoding: 'utf8' }).stdout
}

const noRules = (): string | false => {
  const cannot = cannotDrop()
  if (cannot !== false) return cannot
  if (!works('nft', '--version')) return 'nft is not installed'
  return works('unshare', '--net', 'nft', 'list', 'tables')
    ? false
    : 'rules can not be had in a network of its own here'
}

t.test('privileges', async t => {
  t.test(
    'NET_BIND_SERVICE alone is enough for low ports',
    { skip: cannotDrop() },
    async t => {
      const { port } = await serveLow(t, '+net_bind_service')
      t.match(await ask(port), { text: 'low', how: 'end' })
    },
  )

  t.test('without it there are no low ports', { skip: cannotDrop() }, async t => {
    const { port, log } = await serveLow(t)
    t.match(log, /EACCES/)
    t.match(await ask(port), { how: 'ECONNREFUSED' })
  })

  t.test('what the DaemonSet may is enough for rules', { skip: noRules() }, async t => {
    t.match(checkIn(...granted()), /^capture +nftables +usable /m)
    t.match(checkIn(...granted()), /^mode +nftables +usable .*nft \d/m)
    const less =
      /^the relay's process runs as user 2071510256 with CAP_NET_BIND_SERVICE only$/m
    t.match(checkIn(...granted()), less)
    const rest = granted().filter(name => name !== '+net_admin')
    t.match(checkIn(...rest), /^capture +nftables +not usable .*not permitted/m)
    t.match(checkIn(...rest), /^mode +nftables +not usable .*not permitted/m)
    t.match(checkIn(...rest), /in userspace mode --capture auto takes listen/)
  })

  const noIptables = noRules() || missingPrograms('iptables')
  t.test('and for the mode that it has by default', { skip: noIptables }, async t => {
    t.match(checkIn(...granted()), /^mode +iptables +usable /m)
    t.match(checkIn(...granted()), /^default --proxy-mode on this node: iptables$/m)
  })
})
