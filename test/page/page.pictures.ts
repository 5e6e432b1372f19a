/**
 * Pictures of the live page for the docs, of a real Usher with clients and trouble of several kinds:
 * `npm run docs:page`. No test, but a file of that kind: it needs what tests need.
 */
import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { basename, dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { noBrowser, openBrowser, openPage } from '../support/browser.ts'
import { manifestFile } from '../support/manifests.ts'
import { tcpBackend } from '../support/tcp-backend.ts'

const docs = new URL('../../docs/', import.meta.url).pathname
/** So long the lines are, and a little more. */
const shownMs = 130_000

interface Shown {
  readonly namespace: string
  readonly name: string
  readonly port: string
  readonly protocol?: 'UDP'
  readonly endpoints: readonly (RelayEndpoint & { readonly ready?: boolean })[]
  /** Clients a second, by the time in milliseconds. */
  readonly rate?: (ms: number) => number
}

const vipOf = (place: number): string => `127.96.10.${place + 10}`

const manifestsOf = (services: readonly Shown[]): readonly object[] =>
  services.flatMap(({ namespace, name, port, protocol = 'TCP', endpoints }, place) => [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace },
      spec: { clusterIP: vipOf(place), ports: [{ name: port, protocol, port: 8080 }] },
    },
    ...endpoints.map(({ address, port: at, ready = true }) => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${name}-${address}`,
        namespace,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: [address], conditions: { ready } }],
      ports: [{ name: port, protocol, port: at }],
    })),
  ])

const address = (service: number, one: number): string => `127.96.${20 + service}.${one}`

/** Backends that answer with some kilobytes after a while. */
const answering = (
  t: Test,
  service: number,
  count: number,
): Promise<readonly RelayEndpoint[]> =>
  Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const serve = async (socket: Socket): Promise<void> => {
        await sleep(5 + Math.random() * 60)
        socket.end('x'.repeat(500 + Math.random() * 20_000))
      }
      const { endpoint } = await tcpBackend(
        t,
        socket => void serve(socket),
        address(service, i + 1),
        9000,
      )
      return endpoint
    }),
  )

const dead = (service: number, one: number): RelayEndpoint => ({
  key: `${address(service, one)}:9000`,
  address: address(service, one),
  port: 9000,
})

const dialOnce = (host: string): void => {
  const socket = connect(8080, host, () => void socket.write('GET / HTTP/1.1\r\n\r\n'))
  socket
    .on('error', () => {})
    .on('close', () => {})
    .resume()
}

const servicesOf = async (t: Test): Promise<readonly Shown[]> => {
  const [web, cart, checkout, search, ledger] = await Promise.all([
    answering(t, 0, 4),
    answering(t, 1, 2),
    answering(t, 2, 3),
    answering(t, 3, 2),
    answering(t, 4, 2),
  ])
  const wave = (most: number, slow: number) => (ms: number) =>
    most * (0.6 + 0.4 * Math.sin(ms / slow)) * (0.8 + 0.4 * Math.random())
  const missing = { ...dead(2, 4), ready: false }
  return [
    {
      namespace: 'shop',
      name: 'web',
      port: 'http',
      endpoints: web,
      rate: wave(45, 9000),
    },
    {
      namespace: 'shop',
      name: 'cart',
      port: 'http',
      endpoints: cart,
      rate: wave(12, 15_000),
    },
    {
      namespace: 'shop',
      name: 'checkout',
      port: 'http',
      endpoints: [...checkout, missing],
      rate: wave(8, 5000),
    },
    {
      namespace: 'shop',
      name: 'search',
      port: 'http',
      endpoints: [...search, dead(3, 3)],
      rate: wave(20, 20_000),
    },
    {
      namespace: 'payments',
      name: 'ledger',
      port: 'grpc',
      endpoints: ledger,
      rate: wave(4, 7000),
    },
    {
      namespace: 'payments',
      name: 'vault',
      port: 'https',
      endpoints: [dead(5, 1), dead(5, 2)],
      rate: ms => (ms > 70_000 ? 3 : 0),
    },
    { namespace: 'infra', name: 'grafana', port: 'http', endpoints: [] },
    {
      namespace: 'infra',
      name: 'registry',
      port: 'http',
      endpoints: [{ ...dead(6, 1), ready: false }],
    },
  ]
}

const withClients = async (
  services: readonly Shown[],
  over: AbortSignal,
): Promise<void> => {
  const stepMs = 100
  for (let ms = 0; !over.aborted; ms += stepMs) {
    for (const [place, { rate }] of services.entries()) {
      const due = ((rate?.(ms) ?? 0) * stepMs) / 1000
      const clients = Math.floor(due) + (Math.random() < due % 1 ? 1 : 0)
      for (let i = 0; i < clients; i++) dialOnce(vipOf(place))
    }
    await sleep(stepMs)
  }
}

/** It runs for longer than those of tests may; resolves with its metrics address. */
const usherFor = async (t: Test, manifests: string): Promise<string> => {
  const flags = [
    '--proxy-mode=userspace',
    '--capture=listen',
    `--manifests=${basename(manifests)}`,
  ]
  const addresses = ['metrics', 'healthz'].map(
    name => `--${name}-bind-address=127.0.0.1:0`,
  )
  const line = [resolve('dist/usher.js'), 'run', ...flags, ...addresses]
  const child = spawn(process.execPath, line, {
    // The page says what it reads, as it was given.
    cwd: dirname(manifests),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill())
  for await (const said of createInterface(child.stdout)) {
    const { msg, metrics } = JSON.parse(said) as { msg: string; metrics: string }
    if (msg !== 'serving') continue
    child.stdout.resume()
    return metrics
  }
  throw new Error('it does not serve')
}

t.test('pictures', { skip: noBrowser }, async t => {
  const services = await servicesOf(t)
  const file = await manifestFile(t, ...manifestsOf(services))
  const metrics = await usherFor(t, file.path)
  const over = new AbortController()
  const clients = withClients(services, over.signal)
  const { page } = await openPage(await openBrowser(t), {
    viewport: { width: 1280, height: 560 },
  })
  await page.goto(`http://${metrics}/`)
  await sleep(shownMs)
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: `${docs}page-${colorScheme}.png` })
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.locator('#scroller tr', { hasText: 'shop/search' }).click()
  await sleep(9000)
  await page.screenshot({ path: `${docs}page-service.png` })
  over.abort()
  await clients
})
