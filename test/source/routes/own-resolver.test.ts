import { setMaxListeners } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { hostLookup } from '../../../src/source/routes/place.ts'
import { resolveBy, resolveSrvBy } from '../../../src/source/routes/own-resolver.ts'
import { freePort, testHost } from '../../support/ports.ts'
import * as dns from './dns/dns-server.ts'

t.jobs = 8

const { signal } = new AbortController()
setMaxListeners(0, signal)
const noHosts = '/nowhere/hosts'

/** A resolver that asks a server with these answers. */
const asking = async (t: Test, answers: dns.Answers) => {
  const server = await dns.dnsServer(t, answers)
  return { server, resolve: resolveBy([server], noHosts) }
}

const a = 1
const srv = 33

t.test('A and AAAA records are both taken, and the shortest TTL counts', async t => {
  const { resolve, server } = await asking(t, asked =>
    asked.type === a
      ? dns.reply(asked, [
          dns.cname('DB.example', 'db.Other.example', 20),
          dns.a('db.other.EXAMPLE', '10.0.0.1', 60),
          dns.a('db.other.example', '10.0.0.2', 70),
          dns.a('somebody.else', '10.6.6.6', 1),
        ])
      : dns.reply(asked, [dns.aaaa(asked.name, 'fd00:0:0:0:0:0:0:5', 30)]),
  )
  t.strictSame(await resolve('db.example.', signal), {
    addresses: ['10.0.0.1', '10.0.0.2', 'fd00::5'],
    ttlMs: 20_000,
    faults: [],
  })
  t.strictSame(
    server.asked.map(({ name }) => name),
    ['db.example', 'db.example'],
  )
})

t.test('a TTL of 0 stays 0, and one with the highest bit set is 0', async t => {
  for (const ttl of [0, 0x80000000, 0xffffffff]) {
    const { resolve } = await asking(t, asked =>
      dns.reply(asked, asked.type === a ? [dns.a(asked.name, '10.0.0.1', ttl)] : []),
    )
    t.match(await resolve('db', signal), { ttlMs: 0 }, String(ttl))
  }
})

t.test('what is not there is told apart from what failed', async t => {
  const where = (server: dns.DnsServer) => `${server.address}:${server.port}`
  const cases: [string, dns.Answers, string][] = [
    ['NXDOMAIN', dns.nxdomain, 'there is no such name (NXDOMAIN)'],
    [
      'NODATA',
      asked => dns.reply(asked, []),
      'the name has no A records; the name has no AAAA records',
    ],
    [
      'SERVFAIL',
      asked => dns.reply(asked, [], { rcode: 2 }),
      'SERVER: it failed (SERVFAIL)',
    ],
    [
      'REFUSED',
      asked => dns.reply(asked, [], { rcode: 5 }),
      'SERVER: it refused (REFUSED)',
    ],
    [
      'refused without repeating the question',
      ({ id }) => dns.u16(id, 0x8185, 0, 0, 0, 0),
      'SERVER: it refused (REFUSED)',
    ],
    [
      'an odd code',
      asked => dns.reply(asked, [], { rcode: 11 }),
      'SERVER: it returned error 11',
    ],
    [
      'another type',
      asked =>
        dns.reply(asked, [dns.record(asked.name, 16, 1, Buffer.from('\u0003txt'))]),
      'the name has no A records; the name has no AAAA records',
    ],
    [
      'the other family',
      asked =>
        dns.reply(asked, [
          asked.type === a
            ? dns.aaaa(asked.name, '1:2:3:4:5:6:7:8')
            : dns.a(asked.name, '10.0.0.1'),
        ]),
      'the name has no A records; the name has no AAAA records',
    ],
    [
      'an alias to nowhere',
      asked => dns.reply(asked, [dns.cname(asked.name, 'gone.example')]),
      'the name has no A records; the name has no AAAA records',
    ],
  ]
  for (const [name, answers, message] of cases) {
    const { resolve, server } = await asking(t, answers)
    await t.rejects(
      resolve('db', signal),
      { message: message.replace('SERVER', where(server)) },
      name,
    )
  }
})

t.test('an answer that is malformed or hostile is named', async t => {
  const circle = (asked: dns.Asked) => [
    dns.cname(asked.name, 'b'),
    dns.cname('b', asked.name),
  ]
  const chain = (asked: dns.Asked, length: number) =>
    Array.from({ length }, (_, i) =>
      dns.cname(i === 0 ? asked.name : `c${i}`, `c${i + 1}`),
    )
  /** An answer whose only record begins with these bytes. */
  const raw = (asked: dns.Asked, ...bytes: number[]) =>
    dns.reply(asked, [Buffer.from(bytes)])
  const malformed = 'its answer is malformed: '
  const cases: [string, dns.Answers, string][] = [
    ['a circle', asked => dns.reply(asked, circle(asked)), 'possibly in a loop'],
    [
      'itself',
      asked => dns.reply(asked, [dns.cname(asked.name, asked.name)]),
      'possibly in a loop',
    ],
    ['a chain', asked => dns.reply(asked, chain(asked, 40)), 'more than 16 CNAMEs'],
    [
      'a pointer to itself',
      asked => raw(asked, 0xc0, 12 + asked.question.length),
      `${malformed}a name points to itself or beyond`,
    ],
    ['a pointer beyond', asked => raw(asked, 0xff, 0xff), `${malformed}a name points to`],
    ['a name cut off', asked => raw(asked, 63, 1), `${malformed}a name ends too early`],
    ['half a pointer', asked => raw(asked, 0xc0), malformed],
    [
      'a label of an unknown kind',
      asked => raw(asked, 0x80, 1),
      'a label of an unknown kind',
    ],
    [
      'a name that is too long',
      asked => raw(asked, ...Buffer.from(`\u001f${'a'.repeat(31)}`.repeat(9))),
      `${malformed}a name is longer than 255 bytes`,
    ],
    [
      'no records',
      asked => dns.reply({ ...asked }, []).fill(0xff, 6, 8),
      'ends too early',
    ],
    [
      'an address of five bytes',
      asked => dns.reply(asked, [dns.record(asked.name, 1, 1, Buffer.alloc(5))]),
      'a record is not as long as it says',
    ],
    [
      'a record that is longer than the answer',
      asked => dns.reply(asked, [dns.a(asked.name, '10.0.0.1').fill(0xff, 12, 14)]),
      malformed,
    ],
    [
      'truncated over TCP',
      asked => dns.reply(asked, [], { flags: dns.truncated }),
      'its answer is truncated, over TCP too',
    ],
  ]
  for (const [name, answers, message] of cases) {
    const { resolve } = await asking(t, answers)
    const said = await resolve('db', signal).then(
      () => 'an answer',
      (error: Error) => error.message,
    )
    t.ok(said.includes(message), `${name}: ${said}`)
  }
})

t.test('an answer that does not fit comes over TCP', async t => {
  const many = Array.from({ length: 3000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`)
  const { resolve, server } = await asking(t, asked => {
    if (asked.type !== a) return dns.reply(asked, [])
    if (asked.over === 'UDP') return dns.reply(asked, [], { flags: dns.truncated })
    return dns.reply(
      asked,
      many.map(address => dns.a(asked.name, address)),
    )
  })
  t.strictSame((await resolve('db', signal)).addresses, many)
  t.strictSame(
    server.asked.filter(({ type }) => type === a).map(({ over }) => over),
    ['UDP', 'TCP'],
  )
})

t.test('only the answer to the very question is heard', async t => {
  const { resolve } = await asking(t, asked => {
    const wrong = [dns.a(asked.name, '10.6.6.6')]
    const other = Buffer.concat([dns.wireName('evil'), dns.u16(asked.type, 1)])
    return [
      dns.reply({ ...asked, id: asked.id ^ 1 }, wrong),
      dns.reply({ ...asked, question: other }, wrong),
      dns.u16(asked.id),
      dns.reply(asked, wrong).fill(0, 2, 4),
      dns.reply(asked, asked.type === a ? [dns.a(asked.name, '10.0.0.1')] : []),
    ]
  })
  t.match(await resolve('db', signal), { addresses: ['10.0.0.1'], faults: [] })
})

t.test('the next server is asked, and each is asked twice', async t => {
  const silent = await dns.dnsServer(t, () => undefined)
  const broken = await dns.dnsServer(t, asked => dns.reply(asked, [], { rcode: 2 }))
  const good = await dns.dnsServer(t, asked =>
    dns.reply(asked, [dns.a(asked.name, '10.0.0.1')]),
  )
  const closed = { address: testHost, port: await freePort() }
  const resolve = resolveBy([closed, broken, good], noHosts)
  t.match(await resolve('db', signal), { addresses: ['10.0.0.1'] })
  const none = resolveBy([closed, silent, broken], noHosts)
  await t.rejects(none('db', signal), {
    message: new RegExp(
      `${closed.port}: nothing answers there over UDP \\(ECONNREFUSED\\); .*${silent.port}: it gave no answer within 1.5 s; .*${broken.port}: it failed \\(SERVFAIL\\)$`,
    ),
  })
  t.equal(silent.asked.length, 4, 'for two types')
})

t.test('a server that does not know EDNS is asked without it', async t => {
  for (const old of ['refuses', 'drops']) {
    const { resolve } = await asking(t, asked => {
      if (asked.additional > 0)
        return old === 'drops' ? undefined : dns.reply(asked, [], { rcode: 1 })
      return dns.reply(asked, asked.type === a ? [dns.a(asked.name, '10.0.0.1')] : [])
    })
    t.match(await resolve('db', signal), { addresses: ['10.0.0.1'], faults: [] }, old)
  }
})

t.test('one family is enough, and what failed of the other is told', async t => {
  const { resolve, server } = await asking(t, asked =>
    asked.type === a
      ? dns.reply(asked, [dns.a(asked.name, '10.0.0.1')])
      : dns.reply(asked, [], { rcode: 2 }),
  )
  t.match(await resolve('db', signal), {
    addresses: ['10.0.0.1'],
    faults: [`${server.address}:${server.port}: it failed (SERVFAIL)`],
  })
})

t.test('a question is given up when it is not wanted any more', async t => {
  const { resolve, server } = await asking(t, () => undefined)
  const given = new AbortController()
  const found = resolve('db', given.signal)
  given.abort(new Error('enough'))
  await t.rejects(found, { message: 'enough' })
  await t.rejects(resolve('db', given.signal), { message: 'enough' })
  t.ok(server.asked.length <= 2)
})

t.test('the hosts file goes before the servers, and is read again', async t => {
  const path = join(t.testdir({ hosts: '10.9.9.9 db.example # of today\n' }), 'hosts')
  const server = await dns.dnsServer(t, dns.nxdomain)
  const resolve = resolveBy([server], path)
  t.strictSame(await resolve('DB.Example.', signal), {
    addresses: ['10.9.9.9'],
    ttlMs: 5000,
    faults: [],
  })
  t.equal(server.asked.length, 0)
  await writeFile(path, '10.9.9.10 db.example other\n')
  t.match(await resolve('db.example', signal), { addresses: ['10.9.9.10'] })
  await t.rejects(resolve('db', signal), { message: /NXDOMAIN/ })
})

t.test('SRV records come as they are, or the reason why there are none', async t => {
  const name = '_pg._tcp.example'
  const server = await dns.dnsServer(t, asked =>
    asked.name === name && asked.type === srv
      ? dns.reply(asked, [
          dns.srv(name, [1, 10, 5432, 'A.example'], 9),
          dns.srv(name, [2, 0, 0, ''], 7),
          dns.srv(name, [3, 0, 1, 'o\u0000d\\d\u00ff b.example'], 8),
        ])
      : dns.reply(asked, []),
  )
  const resolveSrv = resolveSrvBy(async () => [server])
  t.match(await resolveSrv(name, signal), {
    records: [
      { priority: 1, weight: 10, port: 5432, target: 'a.example' },
      { priority: 2, weight: 0, port: 0, target: '' },
      { priority: 3, port: 1, target: String.raw`o\000d\092d\255\032b.example` },
    ],
    ttlMs: 7000,
  })
  await t.rejects(resolveSrv('_x._tcp.example', signal), {
    message: 'the name has no SRV records',
  })
})

t.test('of a family that can not be asked for the last addresses stay', async t => {
  let works = true
  const { resolve } = await asking(t, asked => {
    if (asked.type === a) return dns.reply(asked, [dns.a(asked.name, '10.0.0.1')])
    return works
      ? dns.reply(asked, [dns.aaaa(asked.name, 'fd00:0:0:0:0:0:0:5')])
      : dns.reply(asked, [], { rcode: 2 })
  })
  const look = hostLookup('db.example', resolve)
  const found = async () => (await look(signal)).places.map(({ address }) => address)
  t.strictSame(await found(), ['10.0.0.1', 'fd00::5'])
  works = false
  for (let i = 0; i < 2; i += 1) t.strictSame(await found(), ['10.0.0.1', 'fd00::5'])
})
