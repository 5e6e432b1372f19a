import { lookup } from 'node:dns'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import {
  lookupHost,
  type SystemFiles,
  systemResolver,
} from '../../../src/source/routes/resolve-host.ts'
import { parseResolvConf } from '../../../src/source/routes/own-resolver.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import { routeSource } from '../../../src/source/routes/route-source.ts'
import { until } from '../../support/until.ts'
import * as dns from './dns/dns-server.ts'

t.jobs = 4

const { signal } = new AbortController()
const a = 1

/** A system that is set up with a server of these answers; its getaddrinfo knows these hosts. */
const system = async (
  t: Test,
  answers: dns.Answers,
  { conf = '', hosts = '', nsswitch = 'hosts: files dns', others = {} } = {},
) => {
  const server = await dns.dnsServer(t, answers)
  const nameserver = `nameserver ${server.address}:${server.port}`
  const files = { 'resolv.conf': `${nameserver}\n${conf}\n`, hosts, nsswitch }
  const directory = t.testdir(files)
  const asked: string[] = []
  const known = new Map<string, string | Promise<string>>(Object.entries(others))
  const paths: SystemFiles = {
    resolvConf: `${directory}/resolv.conf`,
    nsswitch: `${directory}/nsswitch`,
    hosts: `${directory}/hosts`,
    lookup: async host => {
      asked.push(host)
      const found = await known.get(host)
      if (found === undefined) throw new Error(`getaddrinfo ENOTFOUND ${host}`)
      return [found]
    },
  }
  const names = () =>
    server.asked.filter(({ type }) => type === a).map(({ name }) => name)
  return { resolve: systemResolver(paths), asked, names, paths, known }
}

/** Knows these names, at 10.0.0.1, and no others. */
const knowing =
  (...names: readonly string[]): dns.Answers =>
  asked =>
    names.includes(asked.name)
      ? dns.reply(asked, asked.type === a ? [dns.a(asked.name, '10.0.0.1')] : [])
      : dns.nxdomain(asked)

t.test('names whose servers are silent keep no others waiting', async t => {
  const { resolve, asked } = await system(t, question =>
    question.name.startsWith('dead') ? undefined : knowing('good.example')(question),
  )
  const dead = ['dead1', 'dead2', 'dead3'].map(name => `tcp://127.0.0.1:1=${name}:1`)
  const began = performance.now()
  const addresses = new Map<string, string | undefined>()
  const source = routeSource({
    routes: [...dead, 'tcp://127.0.0.1:1=good.example:1'].map((text, i) =>
      parseRoute(text.replace('127.0.0.1', `127.0.0.${i + 1}`)),
    ),
    resolve,
  })
  t.teardown(() => source.close())
  await source.start({
    apply: changes => {
      for (const change of changes)
        if (change.kind === 'EndpointSlice')
          addresses.set(change.name, change.object?.endpoints[0]?.address)
    },
    synced: () => {},
    problems: () => {},
  })
  t.equal(addresses.get('tcp-127-0-0-4-1.0'), '10.0.0.1')
  t.ok(performance.now() - began < 3000, 'before a dead name has been given up')
  t.match(source.status().error, /cannot resolve dead1: no answer yet/)
  await until('the dead ones are told', () =>
    /dead1: .*it gave no answer within 1.5 s/.test(source.status().error),
  )
  t.strictSame(asked, [], 'getaddrinfo has no part in it')
})

t.test('search domains are applied as resolv.conf(5) has them', async t => {
  const cases: [conf: string, host: string, asked: string[]][] = [
    ['search a.test b.test', 'db', ['db.a.test', 'db.b.test', 'db']],
    ['search a.test', 'db.x', ['db.x', 'db.x.a.test']],
    ['search a.test\noptions ndots:5', 'db.x', ['db.x.a.test', 'db.x']],
    ['search a.test\noptions ndots:5', 'db.x.', ['db.x']],
    ['domain c.test\nsearch a.test.\n# search z.test', 'db', ['db.a.test', 'db']],
  ]
  for (const [conf, host, wanted] of cases) {
    const { resolve, names } = await system(t, dns.nxdomain, { conf })
    await t.rejects(resolve(host, signal), { code: 'NOT_FOUND' })
    t.strictSame(names(), wanted, `${conf}: ${host}`)
  }
  const first = await system(t, knowing('db.a.test'), { conf: 'search a.test b.test' })
  t.match(await first.resolve('db', signal), { addresses: ['10.0.0.1'], ttlMs: 60_000 })
  t.strictSame(first.names(), ['db.a.test'])
})

t.test('a domain whose servers fail is passed over, and is no proof', async t => {
  const answers: dns.Answers = asked =>
    asked.name.endsWith('broken.test')
      ? dns.reply(asked, [], { rcode: 2 })
      : knowing('db')(asked)
  const conf = 'search broken.test'
  const { resolve } = await system(t, answers, { conf })
  t.match(await resolve('db', signal), { addresses: ['10.0.0.1'] })
  await t.rejects(resolve('other', signal), { message: /it failed \(SERVFAIL\)/ })
})

t.test('a host that a domain has is looked for in no other while that fails', async t => {
  let fails = false
  const answers: dns.Answers = asked =>
    fails && asked.name === 'db.a.test'
      ? dns.reply(asked, [], { rcode: 2 })
      : knowing('db.a.test', 'db.b.test', 'other.b.test')(asked)
  const { resolve, asked, names } = await system(t, answers, {
    conf: 'search a.test b.test',
    nsswitch: 'hosts: files mymachines dns',
    others: { db: '10.7.7.7' },
  })
  await resolve('db', signal)
  fails = true
  await t.rejects(resolve('db', signal), { message: /it failed \(SERVFAIL\)/ })
  t.strictSame(asked, [])
  t.notOk(names().includes('db.b.test'))
  await resolve('other', signal)
})

t.test('resolv.conf and the host name count as they do for glibc', async t => {
  const read = (text: string, host = 'node1') => parseResolvConf(text, host)
  t.match(read('', 'node1.corp.test'), { search: ['corp.test'], ndots: 1 })
  t.match(read('search .', 'node1.corp.test'), { search: [] })
  t.match(read('options ndots:5 rotate\noptions ndots:2'), { ndots: 2 })
  t.match(read('nameserver fe80::1%eth0\nnameserver x\n\tnameserver 10.0.0.2 # y'), {
    servers: [
      { address: 'fe80::1%eth0', port: 53 },
      { address: '10.0.0.2', port: 53 },
    ],
  })
})

t.test('the hosts file and nsswitch.conf count, and are read again', async t => {
  const hosts = '10.9.9.9 db'
  const others = { box: '10.7.7.7' }
  const { resolve, asked, paths } = await system(t, knowing('db', 'good'), {
    hosts,
    nsswitch: 'passwd: files\nhosts: files mymachines [NOTFOUND=return] dns # as usual',
    others,
  })
  t.match(await resolve('db', signal), { addresses: ['10.9.9.9'], ttlMs: 5000 })
  t.match(await resolve('good', signal), { addresses: ['10.0.0.1'] })
  t.strictSame(asked, [], 'what DNS knows is not asked for elsewhere')
  t.match(await resolve('box', signal), { addresses: ['10.7.7.7'], ttlMs: undefined })
  await t.rejects(resolve('none', signal), { message: /NXDOMAIN/ })
  t.strictSame(asked, ['box', 'none'])
  await writeFile(paths.nsswitch, 'hosts: dns\n')
  t.match(await resolve('db', signal), { addresses: ['10.0.0.1'] })
  await writeFile(paths.nsswitch, 'hosts: files\n')
  t.match(await resolve('db', signal), { addresses: ['10.9.9.9'] })
  await t.rejects(resolve('good', signal), { message: 'it is not in the hosts file' })
  await writeFile(paths.nsswitch, '')
  t.match(await resolve('good', signal), { addresses: ['10.0.0.1'] }, 'the default')
})

t.test('getaddrinfo is asked for a name once at a time', async t => {
  let give: (address: string) => void = () => {}
  const slow = new Promise<string>(resolve => (give = resolve))
  const { resolve, asked, known } = await system(t, dns.nxdomain, {
    nsswitch: 'hosts: files dns sss',
    others: { slow },
  })
  for (let i = 0; i < 3; i += 1) {
    const given = new AbortController()
    const found = resolve('slow', given.signal)
    await until('it is asked', () => asked.length === 1)
    setTimeout(() => given.abort(new Error('enough')), 50)
    await t.rejects(found)
  }
  t.strictSame(asked, ['slow'])
  give('10.0.0.8')
  known.set('slow', '10.0.0.9')
  t.match(await resolve('slow', signal), { addresses: ['10.0.0.8'] }, 'it was on its way')
  t.match(await resolve('slow', signal), { addresses: ['10.0.0.9'] })
})

t.test('sockets find hosts as node:dns does', async t => {
  const [own, nodes] = [promisify(lookupHost), promisify(lookup)]
  const sorted = (found: unknown) =>
    (found as { address: string }[]).map(one => one.address).toSorted()
  const options = { all: true }
  t.strictSame(
    sorted(await own('localhost', options)),
    sorted(await nodes('localhost', options)),
  )
  t.match(await own('localhost', {}), /^(127|::1)/)
})
