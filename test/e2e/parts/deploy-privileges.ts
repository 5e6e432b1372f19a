import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Test } from 'tap'
import { kubernetes, readObjects, top } from '../../support/deploy.ts'
import { manifestFile, service, slice } from '../../support/manifests.ts'
import { testHost } from '../../support/ports.ts'
import { ask, namedBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

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
  const usher = [process.execPath, `${top}dist/cli/main.js`, 'run', '--manifests']
  const off = ['--metrics-bind-address=off', '--healthz-bind-address=off']
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
  await until('Usher serves', over, 10_000)
  return { port, log }
}

const ownNetwork = ['--user', '--map-root-user', '--net']
const noNetwork =
  works('unshare', ...ownNetwork, 'sh', '-c', 'command -v ip') ||
  'unshare or ip is missing or may not'

export const privilegeTests = (t: Test): void => {
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

  t.test(
    'local-route makes service ranges local, with the address of the node',
    { skip: noNetwork === true ? false : noNetwork },
    async t => {
      const [patch] = readObjects(`${kubernetes}/components/local-route/daemon-set.yaml`)
      const [route] = patch?.spec.template.spec.initContainers ?? []
      const script = `
      ip link set lo up
      ip address add 192.0.2.5/32 dev lo
      ${route?.args[0]}
      ${route?.args[0]}
      ip route get 10.96.200.1
      ip route get 172.20.3.4
      ip -6 route get fd00:10:96::17`
      const { stdout, stderr, status } = spawnSync(
        'unshare',
        [...ownNetwork, 'sh', '-euc', script],
        {
          encoding: 'utf8',
          env: {
            PATH: process.env['PATH'],
            HOST_IP: '192.0.2.5',
            SERVICE_CIDRS: '10.96.0.0/12,172.20.0.0/16,fd00:10:96::/112',
          },
        },
      )
      t.equal(status, 0, stderr)
      t.match(stdout, /^local 10\.96\.200\.1 dev lo src 192\.0\.2\.5 /m)
      t.match(stdout, /^local 172\.20\.3\.4 dev lo src 192\.0\.2\.5 /m)
      t.match(stdout, /^local fd00:10:96::17 .*dev lo /m)
    },
  )
}
