import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { listings } from '../../src/cli/listings.ts'
import { statusText } from '../../src/cli/status.ts'
import { version } from '../../src/cli/version.ts'
import { status } from '../../src/cli/status.ts'
import { bytesForPeople, forPeople, visible, wrap } from '../../src/cli/io.ts'
import type {
  EndpointStatus,
  ServicePortStatus,
  StatusDocument,
  VipStatus,
} from '../../src/observe/status.ts'
import { keptIo } from '../support/kept-io.ts'

const now = Date.parse('2030-01-01T03:00:00Z')

const web: ServicePortStatus = {
  servicePort: 'default/web:http',
  protocol: 'TCP',
  family: 'IPv4',
  affinityMs: 10_800_000,
  verdicts: { internal: 'forward', external: 'forward', node: 'forward' },
  sourceRanges: null,
  paused: null,
  vips: [
    {
      kind: 'ClusterIP',
      vip: '127.96.0.10:8080',
      capture: 'local',
      listen: '127.96.0.10:8080',
      state: 'listening',
      reason: '',
    },
    {
      kind: 'NodePort',
      vip: '0.0.0.0:30080',
      capture: 'none',
      listen: '0.0.0.0:41000',
      state: 'failed',
      reason: 'EADDRINUSE: the port is in use',
    },
  ],
  endpoints: [
    {
      endpoint: '127.0.0.1:9001',
      state: 'ready',
      eligible: true,
      clients: 'all',
      active: 3,
      failures: 0,
      coolingDown: false,
      drained: null,
      weight: 1,
      weightSince: null,
      check: null,
    },
    {
      endpoint: '127.0.0.1:9002',
      state: 'not ready',
      eligible: false,
      clients: 'none',
      active: 0,
      failures: 1,
      coolingDown: false,
      drained: null,
      weight: 1,
      weightSince: null,
      check: null,
    },
  ],
  state: 'degraded',
  reason: '127.0.0.1:9002 not ready',
  endpointCounts: { usable: 1, all: 2 },
  holdMs: 0,
  active: 3,
  accepted: 12,
  failed: 2,
  failedBy: {},
  options: {},
  retries: 1,
  held: 0,
  holdRefused: 0,
  queued: 0,
  bytesToBackend: 1536,
  bytesToClient: 12,
  datagrams: 0,
  lastError: 'ECONNREFUSED 127.0.0.1:9002',
}

const good: StatusDocument = {
  version: '1.2.3',
  mode: 'userspace',
  modeChoice: null,
  startedAt: '2030-01-01T00:00:00.000Z',
  healthy: true,
  unhealthy: [],
  draining: false,
  tookOver: null,
  node: null,
  source: { name: 'manifests a.yaml', synced: true, lastGoodAt: now - 12_000, error: '' },
  connectTime: null,
  capture: { name: 'nftables', detail: 'nft 1.0.6', passedOver: [] },
  relay: {
    name: 'linux',
    detail: 'everything it needs works here',
    workers: 2,
    ownProcess: null,
    passedOver: [],
  },
  problems: [],
  fds: { used: 40, limit: 1024 },
  acceptPaused: false,
  servicePorts: [web],
}

const bad: StatusDocument = {
  ...good,
  healthy: false,
  unhealthy: ['0.0.0.0:30080 could not be bound for 2m', 'the source is stale'],
  draining: true,
  acceptPaused: true,
  source: { ...good.source, error: 'a.yaml: document 2: not YAML' },
  problems: [
    { object: 'Service default/x', field: 'spec.ports[0].port', message: 'is 70000' },
  ],
}

const textOf = (document: StatusDocument, colour = false): string =>
  [...statusText(document, now, colour)].join('')

const serve = async (t: Test, listener: RequestListener): Promise<string> => {
  const server = createServer(listener)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const ask = async (
  address: string,
  json = false,
  timeoutMs = 3000,
  some: { service?: readonly string[]; all?: boolean } = {},
) => {
  const { io, printed } = keptIo()
  const given = { address, controlSocket: '', json, service: [], all: false, ...some }
  const code = await status(given, io, timeoutMs)
  return { code, ...printed }
}

t.test('all that is known of a ServicePort stands in aligned lines', async t => {
  t.equal(
    textOf(good),
    `usher    1.2.3, userspace, up 3h (since 2030-01-01T00:00:00.000Z)
health   runs, 1 Service degraded
source   manifests a.yaml, last read 12s ago
capture  nftables (nft 1.0.6)
relay    linux (2 workers; everything it needs works here)
files    the relay holds 40 descriptors and may hold 1024

default/web:http TCP IPv4  degraded: 127.0.0.1:9002 not ready
  3 active, 12 accepted, 2 failed, 1 retry, 1.5 KiB to backends, 12 B to clients, sticky for 3h
  ClusterIP  127.96.0.10:8080  on the VIP itself         listening
  NodePort   0.0.0.0:30080     proxy port 0.0.0.0:41000  failed: EADDRINUSE: the port is in use
  ->  127.0.0.1:9001  ready              3 active  0 failures
  ->  127.0.0.1:9002  not ready, unused  0 active  1 failure
  last error: ECONNREFUSED 127.0.0.1:9002

1 ServicePort, 1 degraded, 3 active, 0 problems
`,
  )
})

t.test('the headline says what is worst, and how bad it is', async t => {
  const lineOf = (states: readonly ServicePortStatus['state'][], some = {}) => {
    const servicePorts = states.map((state, i) => ({
      ...web,
      servicePort: `default/web-${i}:http`,
      state,
    }))
    const [, line = ''] = textOf({ ...good, servicePorts, ...some }, true).split('\n')
    return line.replace(/^\S+ +/, '')
  }
  const [red, yellow] = ['\u001B[31m', '\u001B[33m']
  t.match(lineOf(['ok', 'ok']), '\u001B[32mok')
  t.equal(lineOf(['ok', 'no endpoints']), 'runs, 1 Service without endpoints')
  t.match(
    lineOf(['degraded', 'no endpoints', 'failing', 'no endpoints', 'down']),
    `${red}runs, 1 Service down, 1 failing, 1 degraded, 2 without endpoints`,
  )
  const twice: readonly ServicePortStatus[] = [
    { ...web, servicePort: 'default/web:http', state: 'down' },
    { ...web, servicePort: 'default/web:https', state: 'down' },
  ]
  t.match(lineOf([], { servicePorts: twice }), 'runs, 1 Service down')
  const { problems } = bad
  t.match(lineOf(['ok'], { problems }), `${yellow}runs, 1 problem`)
  const source = { ...good.source, error: 'away' }
  t.match(lineOf(['ok'], { source }), `${yellow}runs, source error`)
  t.match(lineOf(['paused'], { draining: true }), `${yellow}drains: `)
})

t.test('an Usher with other words for states is shown without them', async t => {
  const document = { ...good, servicePorts: [{ ...web, state: 'none usable' }] }
  const address = await serve(t, (_, response) => response.end(JSON.stringify(document)))
  const { code, out } = await ask(address)
  t.equal(code, 0)
  t.match(out, '\ndefault/web:http TCP IPv4\n')
})

t.test('trouble is told with its reasons', async t => {
  const text = textOf(bad)
  for (const line of [
    'health   is not healthy: 0.0.0.0:30080 could not be bound for 2m; the source is stale, source error, 1 Service degraded, 1 problem',
    '         a.yaml: document 2: not YAML',
    '         no new connections are accepted until some are free',
    'ending   waiting for open connections to finish',
    'problem: Service default/x spec.ports[0].port: is 70000',
    '1 ServicePort, 1 degraded, 3 active, 1 problem',
  ])
    t.ok(text.split('\n').includes(line), line)
})

t.test('what a sidecar has are routes, wherever they are written', t => {
  const route = { ...web, servicePort: 'route/web' }
  for (const name of ['routes', 'routes /etc/usher.yaml']) {
    const source = { ...good.source, name }
    const text = textOf({ ...good, source, servicePorts: [route, route] })
    t.match(text, /^2 routes, 2 degraded, /m, name)
  }
  t.match(textOf({ ...good, servicePorts: [] }), /^0 ServicePorts, /m)
  t.end()
})

t.test('a capture that is second best says why not the best', async t => {
  const passedOver = [{ name: 'nftables', detail: 'nft: not found' }]
  const capture = { name: 'local', detail: 'iproute2-6.1.0', passedOver }
  t.match(
    textOf({ ...good, capture }),
    '\ncapture  local (iproute2-6.1.0)\n         not nftables: nft: not found\n',
  )
})

t.test('a kernel mode says what it is and why, and shows no relay', async t => {
  const text = textOf({
    ...good,
    mode: 'iptables',
    modeChoice: {
      name: 'iptables',
      askedBy: '--proxy-mode',
      detail: 'iptables 1.8.9 (nf_tables)',
      passedOver: [{ name: 'ipvs', detail: 'kernel module ip_vs is missing' }],
    },
    capture: null,
    relay: null,
  })
  t.match(text, /^usher +\S+, iptables, up/)
  t.match(text, /\nmode +iptables \(by --proxy-mode; iptables 1\.8\.9 \(nf_tables\)\)\n/)
  t.match(text, /\n +not ipvs: kernel module ip_vs is missing\n/)
  t.notMatch(text, /\n(relay|capture|files) |active|accepted|failures/)
})

t.test('in nftables mode what the relay carries has figures', async t => {
  const vip = { kind: 'ClusterIP', listen: '', reason: '' } as const
  const kernel = { ...vip, vip: '10.96.0.1:80', capture: 'kernel' } as const
  const byKernel: VipStatus = { ...kernel, state: 'forwarding' }
  const byRelay: VipStatus = {
    ...vip,
    kind: 'NodePort',
    vip: '127.0.0.1:30080',
    capture: 'nftables',
    listen: '169.254.77.88:41000',
    state: 'listening',
  }
  const headOf = (...vips: readonly VipStatus[]) => {
    const document: StatusDocument = { ...good, mode: 'nftables' }
    const text = textOf({ ...document, servicePorts: [{ ...web, vips }] })
    t.match(text, /\nfiles +the relay holds 40 /)
    t.match(text, /1 degraded, 3 active, 0 problems/)
    const lines = text.split('\n')
    return lines[lines.findIndex(line => line.startsWith(web.servicePort)) + 1]
  }
  t.match(headOf(byRelay), /^ {2}3 active, 12 accepted/)
  t.match(headOf(byKernel, byRelay), /^ {2}by the relay: 3 active, 12 accepted/)
  t.equal(headOf(byKernel), '  sticky for 3h')
})

t.test('a ServicePort without endpoints says what clients get', async t => {
  const text = textOf({ ...good, servicePorts: [{ ...web, endpoints: [] }] })
  t.match(text, '  -> no endpoints: clients are refused\n')
})

t.test('the node is told where the source knows one', async t => {
  const node = { name: 'n1', zone: 'eu-1a', notEligible: '' }
  t.match(textOf({ ...good, node }), '\nnode     n1, zone eu-1a\nsource   ')
  t.match(textOf({ ...good, node: { ...node, zone: '' } }), '\nnode     n1\nsource   ')
  const notEligible = 'the Node is about to go'
  t.match(
    textOf({ ...good, node: { ...node, notEligible } }),
    /\n +the Node is about to go\n/,
  )
})

const isDown = {
  up: false,
  since: new Date(now - 180_000).toISOString(),
  why: 'HTTP status 503, expected 200',
  host: 'db-1',
}

const [first, second] = web.endpoints as [EndpointStatus, EndpointStatus]

t.test('an endpoint says why it is not used, or by whom it is', async t => {
  const unused = { eligible: false, clients: 'none', state: 'not ready' } as const
  const cases: [Partial<EndpointStatus>, text: string][] = [
    [{}, 'ready'],
    [{ eligible: false, clients: 'none' }, 'ready, unused by policy or hints'],
    [{ eligible: false, clients: 'none', state: 'terminating' }, 'terminating, unused'],
    [unused, 'not ready, unused'],
    [{ clients: 'internal' }, 'ready for ClusterIP clients'],
    [
      { clients: 'external+node' },
      'ready for clients from outside and clients on this node',
    ],
    [{ coolingDown: true }, 'cooling down after a failure'],
    [
      { ...unused, check: { ...isDown, since: null, why: '', host: '' } },
      'not checked yet, unused',
    ],
    [{ ...unused, check: { ...isDown, host: '' } }, 'down, unused'],
    [{ check: { ...isDown, host: '' } }, 'down, tried all the same'],
  ]
  for (const [some, text] of cases) {
    const endpoints = [{ ...first, ...some }]
    const line = textOf({ ...good, servicePorts: [{ ...web, endpoints }] })
      .split('\n')
      .find(each => each.includes('->'))
    t.match(line, `  ->  127.0.0.1:9001  ${text}  3 active`)
  }
})

t.test('a check says since when an endpoint is down, and why', async t => {
  const lineOf = (check: EndpointStatus['check']) =>
    textOf({ ...good, servicePorts: [{ ...web, endpoints: [{ ...first, check }] }] })
      .split('\n')
      .find(each => each.includes('->'))
  t.equal(
    lineOf(isDown),
    '  ->  127.0.0.1:9001 (db-1)  down, tried all the same  3 active  0 failures  down for 3m: HTTP status 503, expected 200',
  )
  t.match(lineOf({ ...isDown, up: true, why: '' }), /0 failures$/)
  t.match(
    lineOf({ ...isDown, up: true, why: 'make the account' }),
    / 0 failures {2}check: make the account$/,
  )
  t.match(lineOf({ ...isDown, since: null, why: '' }), /0 failures$/)
})

t.test('who waits for an endpoint, and that they do, is told', async t => {
  const port = { ...web, endpoints: [second], holdMs: 30_000, held: 1 }
  const text = textOf({ ...good, servicePorts: [port] })
  t.match(text, '  -> no usable endpoint: clients wait for up to 30s\n')
  t.match(text, '\ndefault/web:http: 1 client waits for an endpoint\n1 ServicePort,')
  t.match(
    textOf({ ...good, servicePorts: [{ ...port, held: 2 }] }),
    ': 2 clients wait for',
  )
  t.match(
    textOf({ ...good, servicePorts: [{ ...port, queued: 3 }] }),
    ': 1 client waits for an endpoint, 3 for a place\n',
  )
  const full = textOf({ ...good, servicePorts: [{ ...web, queued: 3 }] })
  t.match(full, '\ndefault/web:http: 3 clients wait for a place\n')
})

t.test('what has failed is told by cause', async t => {
  const servicePorts = [{ ...web, failed: 3, failedBy: { PR: 1, sQ: 2 } }]
  t.match(textOf({ ...good, servicePorts }), / accepted, 3 failed \(1 PR, 2 sQ\), /)
})

t.test('the options in force are named', async t => {
  const options = { maxConnections: '80', deny: '100000 ranges' }
  const text = textOf({ ...good, servicePorts: [{ ...web, options }] })
  t.match(text, '\n  with maxConnections=80, deny=100000 ranges\n')
  t.notMatch(textOf({ ...good, servicePorts: [web] }), '  with ')
})

t.test('usher get routes counts all that wait', async t => {
  const route = {
    ...web,
    endpointCounts: { usable: 0, all: 0 },
    state: 'down',
    held: 1,
    queued: 2,
  } as const
  const [item] = listings.routes([route]).items
  t.match(item?.document(), { state: 'down', waiting: 3 })
})

t.test(
  'the relay is named with its threads, its process and what it stands for',
  async t => {
    const relay = {
      name: 'portable',
      detail: 'runs wherever Node does',
      workers: 1,
      ownProcess: { privileges: 'user 65532 with no capabilities', excess: '' },
      passedOver: [{ name: 'linux', detail: 'splice is refused with ENOSYS' }],
    }
    t.match(
      textOf({ ...good, relay }),
      '\nrelay    portable (a process of its own: user 65532 with no capabilities; runs wherever Node does)\n         not linux: splice is refused with ENOSYS\n',
    )
    const ownProcess = { privileges: 'root with 41 capabilities', excess: 'no setpriv' }
    t.match(
      textOf({ ...good, relay: { ...relay, ownProcess } }),
      /root with 41 capabilities; runs .*\n +more privileges than it needs: no setpriv\n/,
    )
    t.notMatch(textOf({ ...good, relay: null }), '\nrelay ')
  },
)

t.test('a Local policy without an endpoint here is told with each VIP', async t => {
  const none = { internal: 'drop', external: 'drop', node: 'drop' } as const
  const show = (some: Partial<ServicePortStatus>) =>
    textOf({ ...good, servicePorts: [{ ...web, ...some }] })
  const spared = show({ verdicts: { ...none, internal: 'forward', node: 'forward' } })
  t.match(spared, / 127\.96\.0\.10:8080 .* listening\n/)
  const [clusterIp, nodePort] = web.vips as [VipStatus, VipStatus]
  const vips = [clusterIp, { ...nodePort, state: 'listening', reason: '' } as const]
  t.match(
    show({ vips, verdicts: { ...none, internal: 'forward', node: 'forward' } }),
    /NodePort .* listening; serves only clients on this node: policy Local, no endpoint on this node\n/,
  )
  const nobody = show({ vips, verdicts: none, endpoints: [second] })
  t.match(nobody, /ClusterIP .* listening; serves no client: policy Local, /)
  t.match(nobody, /NodePort .* listening; serves no client: policy Local, /)
  t.match(nobody, '  -> no usable endpoint on this node: clients are not served\n')
  const refused = { internal: 'reject', external: 'reject', node: 'reject' } as const
  t.match(
    show({ verdicts: refused, endpoints: [second] }),
    '  -> no usable endpoint: clients are refused\n',
  )
})

t.test('source ranges say who may use the load-balancer IPs', async t => {
  const show = (sourceRanges: readonly string[] | null) =>
    textOf({ ...good, servicePorts: [{ ...web, sourceRanges }] })
  t.match(
    show(['192.0.2.0/24', '198.51.100.7/32']),
    '\n  load-balancer IPs: for clients from 192.0.2.0/24, 198.51.100.7/32 only\n',
  )
  t.match(show([]), '\n  load-balancer IPs: open to no client, ')
  t.notMatch(show(null), 'load-balancer IPs')
})

t.test('the document of an older Usher is understood', async t => {
  const older = structuredClone(good) as unknown as {
    node?: unknown
    relay?: unknown
    servicePorts: {
      verdicts?: unknown
      sourceRanges?: unknown
      holdMs?: unknown
      state?: unknown
      reason?: unknown
      endpointCounts?: unknown
      endpoints: { clients?: unknown; coolingDown?: unknown; check?: unknown }[]
    }[]
  }
  delete older.node
  delete older.relay
  for (const port of older.servicePorts) {
    delete port.verdicts
    delete port.sourceRanges
    delete port.holdMs
    delete port.state
    delete port.reason
    delete port.endpointCounts
    for (const endpoint of port.endpoints) {
      delete endpoint.clients
      delete endpoint.coolingDown
      delete endpoint.check
    }
  }
  const address = await serve(t, (_, response) => response.end(JSON.stringify(older)))
  const { code, out } = await ask(address)
  t.equal(code, 0)
  t.equal(
    out.replace(/, up .*\n/, '').replace(/last read .*\n/, ''),
    textOf({ ...good, relay: null, servicePorts: [{ ...web, state: undefined }] })
      .replace(/, up .*\n/, '')
      .replace(/last read .*\n/, ''),
  )
})

t.test('clients that wait for an endpoint are told of, and those refused', async t => {
  const servicePorts = [{ ...web, held: 4, holdRefused: 5 }]
  const text = textOf({ ...good, servicePorts })
  t.match(
    text,
    / 2 failed, 4 waiting for an endpoint, 5 refused as too many were waiting, /,
  )
})

t.test('an idle UDP ServicePort counts datagrams in place of retries', async t => {
  const text = textOf({ ...good, servicePorts: [{ ...web, protocol: 'UDP' }] })
  t.match(text, '2 failed, 0 datagrams, 1.5 KiB')
})

t.test('without colour nothing in the text can drive a terminal', async t => {
  const evil = '\u001B[2J\u009B31m\u202Ex\n'
  const nasty = {
    ...web,
    servicePort: evil,
    lastError: evil,
    vips: web.vips.map(vip => ({ ...vip, vip: evil, reason: evil })),
    endpoints: web.endpoints.map(each => ({ ...each, endpoint: evil, clients: evil })),
    sourceRanges: [evil],
  }
  const source = { ...bad.source, name: evil, error: evil }
  const problems = [{ object: evil, field: evil, message: evil }]
  const text = textOf({
    ...bad,
    version: evil,
    unhealthy: [evil],
    node: { name: evil, zone: evil, notEligible: evil },
    source,
    problems,
    servicePorts: [nasty],
  })
  t.notMatch(text, /[^\P{Cc}\n]|\u202E/u)
  // The node, why it is not eligible, and the source ranges are a line each.
  t.equal(text.split('\n').length, textOf(bad).split('\n').length + 3)
})

t.test('colour changes no letter', async t => {
  const colourful = textOf(bad, true)
  t.match(colourful, '\u001B[31m')
  // oxlint-disable-next-line no-control-regex
  t.equal(colourful.replaceAll(/\u001B\[\d+m/g, ''), textOf(bad))
})

t.test('10 000 ServicePorts with 20 endpoints each come through', async t => {
  const [endpoint] = web.endpoints
  const servicePorts = Array.from({ length: 10_000 }, (_, index) => ({
    ...web,
    servicePort: `default/web-${index}`,
    endpoints: Array(20).fill(endpoint),
  }))
  const address = await serve(t, (_, response) => {
    response.end(JSON.stringify({ ...good, servicePorts }))
  })
  const { code, out } = await ask(address, false, 60_000, { all: true })
  t.equal(code, 0)
  t.match(out, 'default/web-9999 TCP')
  t.match(out, '10000 ServicePorts, 10000 degraded, 30000 active')
})

t.test(
  'of many ServicePorts those that are not ok are printed, or those that are named',
  async t => {
    const servicePorts = Array.from({ length: 100 }, (_, index): ServicePortStatus => {
      const state = index === 7 || index === 70 ? 'degraded' : 'ok'
      return { ...web, state, servicePort: `default/web-${index}:http` }
    })
    const address = await serve(t, (_, response) => {
      response.end(JSON.stringify({ ...good, servicePorts }))
    })
    const titlesOf = (out: string) => out.match(/^default\/web-\d+/gm)
    const { out } = await ask(address)
    t.strictSame(titlesOf(out), ['default/web-7', 'default/web-70'])
    t.match(
      out,
      '\n98 ServicePorts more (98 ok): usher status NAME, or usher status --all\n',
    )
    t.match(out, '100 ServicePorts, 98 ok, 2 degraded, 300 active, 0 problems\n')
    const named = await ask(address, false, 3000, { service: ['default/web-3'] })
    t.strictSame(titlesOf(named.out), ['default/web-3'])
    const json = await ask(address, true, 3000, {
      service: ['service/default/web-3:http'],
    })
    t.match(JSON.parse(json.out), {
      servicePorts: [{ servicePort: 'default/web-3:http' }],
    })
    const unknown = await ask(address, false, 3000, { service: ['default/wob-3'] })
    t.equal(unknown.code, 1)
    t.match(unknown.err, 'there is no Service or route "default/wob-3"; did you mean')
  },
)

t.test('one long name does not push the other columns away', async t => {
  const long = web.vips.map(vip => ({ ...vip, vip: `${'x'.repeat(500)}:1` }))
  const vips = [...web.vips, ...long]
  const text = textOf({ ...good, servicePorts: [{ ...web, vips }] })
  const line = text.split('\n').find(each => each.includes('127.96.0.10')) ?? ''
  t.ok(line !== '' && line.length < 120, line)
})

t.test('a running Usher is asked for /status', async t => {
  let asked = ''
  const address = await serve(t, (request, response) => {
    asked = request.url ?? ''
    response.end(JSON.stringify(good))
  })
  const { code, out, err } = await ask(address)
  t.strictSame([code, err], [0, ''])
  const { pathname, searchParams } = new URL(asked, 'http://usher')
  t.equal(pathname, '/status')
  const fields = searchParams.get('fields')?.split(',') ?? []
  t.ok(searchParams.has('alike') && fields.includes('endpoints'), asked)
  t.match(out, 'default/web:http TCP IPv4')
})

t.test('a kernel mode serves SCTP, too', async t => {
  const document = { ...good, mode: 'ipvs', servicePorts: [{ ...web, protocol: 'SCTP' }] }
  const address = await serve(t, (_, response) => response.end(JSON.stringify(document)))
  const { code, out, err } = await ask(address)
  t.strictSame([code, err], [0, ''])
  t.match(out, 'default/web:http SCTP IPv4')
})

t.test('--json prints the document as it came, fields of a later Usher too', async t => {
  const document = { ...good, later: [1] }
  const address = await serve(t, (_, response) => response.end(JSON.stringify(document)))
  const { code, out } = await ask(address, true)
  t.equal(code, 0)
  t.strictSame(JSON.parse(out), document)
})

t.test('endpoints that are alike come together, and have a line each', async t => {
  const [one] = web.endpoints
  const alike = { ...one, active: 0, alike: ['127.0.0.1:9003', '127.0.0.1:90004'] }
  const each = ['127.0.0.1:9001', ...alike.alike].map(endpoint =>
    Object.assign({}, one, { active: 0, endpoint }),
  )
  for (const colour of [false, true]) {
    const of = (endpoints: readonly object[]) => {
      const servicePorts = [{ ...web, endpoints: endpoints as EndpointStatus[] }]
      return textOf({ ...good, servicePorts }, colour)
    }
    t.equal(of([alike]), of(each))
  }
})

t.test('of an Usher of this version the first ServicePort is checked', async t => {
  const of = (...servicePorts: readonly (object | null)[]) => {
    const document = { ...good, version: version(), servicePorts }
    return serve(t, (_, response) => response.end(JSON.stringify(document)))
  }
  const { code, out } = await ask(await of(web, { ...web, later: 1 }))
  t.equal(code, 0)
  t.match(out, '2 ServicePorts, 2 degraded, 6 active')
  const odd = { ...web, active: 'many' }
  t.match((await ask(await of(odd, web))).err, '(servicePorts.0.active: ')
  t.match((await ask(await of(null, web))).err, '(servicePorts.0: ')
})

t.test('an Usher that has not read its source yet can be shown', async t => {
  const source = { ...good.source, synced: false, lastGoodAt: undefined }
  const document = JSON.stringify({ ...good, source })
  const address = await serve(t, (_, response) => response.end(document))
  const { code, out } = await ask(address)
  t.equal(code, 0)
  t.match(out, 'source   manifests a.yaml, not synced, not read yet\n')
})

t.test('when nothing answers it says where it asked and what decides that', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  const { code, out, err } = await ask(`127.0.0.1:${port}`)
  t.strictSame([code, out], [3, ''])
  t.match(err, `usher status: http://127.0.0.1:${port}/status: connect ECONNREFUSED`)
  t.match(err, /--address.*--metrics-bind-address/)
})

t.test('a server that is silent, before or within its answer, is given up', async t => {
  const mute = await serve(t, () => {})
  t.match((await ask(mute, false, 100)).err, 'no answer within 0.1 s')
  const halting = await serve(t, (_, response) => response.write('{'))
  const { code, err } = await ask(halting, false, 100)
  t.equal(code, 3)
  t.match(err, 'no answer within 0.1 s')
})

t.test('an answer that is not Usher’s is refused, saying why', async t => {
  const answer = async (statusCode: number, body: string) => {
    const address = await serve(t, (_, response) => {
      response.writeHead(statusCode).end(body)
    })
    return (await ask(address)).err
  }
  t.match(
    await answer(404, 'no'),
    'it answered 404 (no), so it is not Usher, or not the right address of it',
  )
  t.match(await answer(200, 'iptables'), 'its answer is not JSON, so it is not Usher')
  const other = await answer(200, '[]')
  t.match(other, 'does not understand its answer')
  t.notMatch(other, 'Is Usher running', 'it has answered')
  const odd = { ...good, servicePorts: [{ ...web, active: 'many' }] }
  t.match(await answer(200, JSON.stringify(odd)), '(servicePorts.0.active: ')
})

t.test('words for people', async t => {
  const times = [0, 400, 59_600, 3_600_000, 3_660_000, 90_000_000, -5]
  t.strictSame(times.map(forPeople), ['0s', '0s', '1m', '1h', '1h1m', '1d1h', '0s'])
  const sizes = [0, 1023, 1024, 1536, 1024 ** 3]
  t.strictSame(sizes.map(bytesForPeople), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '1.0 GiB',
  ])
  t.equal(visible('a\u001B[m\n'), String.raw`a\u001b[m\u000a`)
  t.strictSame(wrap('aa bb cc', 5, ''), ['aa bb', 'cc'])
  t.strictSame(wrap('aaaaaaa b', 5, '  '), ['  aaaaaaa', '  b'])
})
