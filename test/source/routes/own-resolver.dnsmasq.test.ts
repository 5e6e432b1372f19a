import { spawn } from 'node:child_process'
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { resolveBy, resolveSrvBy } from '../../../src/source/routes/own-resolver.ts'
import { missingPrograms } from '../../support/installed.ts'
import { freePort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

const skip = missingPrograms('dnsmasq')
const { signal } = new AbortController()

/** A real server that knows these records and nothing else, and asks nobody. */
const dnsmasq = async (t: Test, ...records: string[]) => {
  const port = await freePort()
  const program = spawn('dnsmasq', [
    '--keep-in-foreground',
    '--conf-file=/dev/null',
    '--no-resolv',
    '--no-hosts',
    '--pid-file',
    '--user=',
    '--bind-interfaces',
    `--listen-address=${testHost}`,
    `--port=${port}`,
    '--local=/example/',
    ...records.map(text => `--${text}`),
  ])
  const said: string[] = []
  program.stderr.on('data', data => said.push(String(data)))
  const exit = once(program, 'exit')
  t.teardown(async () => {
    program.kill('SIGKILL')
    await exit
  })
  const servers = [{ address: testHost, port }]
  const resolve = resolveBy(servers, '/nowhere/hosts')
  await until(`it answers ${said.join('')}`, () =>
    resolve('there.example', signal).then(
      () => true,
      () => false,
    ),
  )
  return { resolve, resolveSrv: resolveSrvBy(async () => servers), port }
}

/** The same server at an address where TCP is closed. */
const overUdpAlone = async (t: Test, port: number) => {
  const socket = createSocket('udp4')
  socket.bind(0, testHost)
  await once(socket, 'listening')
  const waiting = new Map<number, RemoteInfo>()
  socket.on('message', (message, from) => {
    const id = message.readUInt16BE(0)
    if (from.port !== port) waiting.set(id, from)
    const to = from.port === port ? waiting.get(id) : { address: testHost, port }
    if (to !== undefined) socket.send(message, to.port, to.address)
  })
  t.teardown(() => socket.close())
  return [{ address: testHost, port: socket.address().port }]
}

/** As many servers of one service. */
const srvRecords = (count: number) =>
  Array.from(
    { length: count },
    (_, i) => `srv-host=_pg._tcp.example,server-${i}.example,5432`,
  )

t.test('20 SRV records come over UDP', { skip }, async t => {
  const { port } = await dnsmasq(t, there, ...srvRecords(20))
  const servers = await overUdpAlone(t, port)
  const found = await resolveSrvBy(async () => servers)('_pg._tcp.example', signal)
  t.equal(found.records.length, 20)
  t.equal(found.faults, undefined)
})

t.test('what is cut off is the last resort where TCP is closed', { skip }, async t => {
  const many = Array.from(
    { length: 150 },
    (_, i) => `host-record=many.example,10.2.0.${i}`,
  )
  const { port } = await dnsmasq(t, there, ...srvRecords(100), ...many)
  const servers = await overUdpAlone(t, port)
  const { records, faults } = await resolveSrvBy(async () => servers)(
    '_pg._tcp.example',
    signal,
  )
  t.ok(records.length > 5 && records.length < 100, `${records.length} of 100`)
  t.match(faults, [/^its answer is truncated, and over TCP: .*ECONNREFUSED/])
  const host = await resolveBy(servers, '/nowhere/hosts')('many.example', signal)
  t.ok(host.addresses.length > 20 && host.addresses.length < 150)
  t.match(host.faults, [/truncated/])
})

const there = 'host-record=there.example,10.0.0.9'

t.test('addresses, aliases and TTLs of a real server', { skip }, async t => {
  const { resolve } = await dnsmasq(
    t,
    there,
    'host-record=db.example,10.0.0.1,fd00::1,40',
    'cname=alias.example,db.example,15',
  )
  const both = ['10.0.0.1', 'fd00::1']
  t.strictSame(await resolve('db.example', signal), {
    addresses: both,
    ttlMs: 40_000,
    faults: [],
  })
  t.strictSame((await resolve('ALIAS.example.', signal)).addresses, both)
  t.match(await resolve('there.example', signal), {
    addresses: ['10.0.0.9'],
    ttlMs: 0,
    faults: [],
  })
  await t.rejects(resolve('nowhere.example', signal), { message: /\(NXDOMAIN\)/ })
  await t.rejects(resolve('db.elsewhere', signal), { message: /it refused \(REFUSED\)/ })
})

t.test('SRV records of a real server', { skip }, async t => {
  const { resolveSrv } = await dnsmasq(
    t,
    there,
    'host-record=a.example,10.0.0.1',
    'host-record=b.example,10.0.0.2',
    'srv-host=_pg._tcp.example,a.example,5432,10,60',
    'srv-host=_pg._tcp.example,b.example,5433,20,0',
  )
  const { records } = await resolveSrv('_PG._tcp.example', signal)
  t.strictSame(
    records
      .map(({ priority, weight, port, target }) => [priority, weight, port, target])
      .toSorted((one, other) => Number(one[0]) - Number(other[0])),
    [
      [10, 60, 5432, 'a.example'],
      [20, 0, 5433, 'b.example'],
    ],
  )
  await t.rejects(resolveSrv('a.example', signal), {
    message: 'the name has no SRV records',
  })
})

t.test('what a real server cuts off is asked for over TCP', { skip }, async t => {
  const many = Array.from({ length: 400 }, (_, i) => `10.2.${i >> 8}.${i & 255}`)
  const records = many.map(address => `host-record=many.example,${address}`)
  const { resolve } = await dnsmasq(t, there, ...records)
  const { addresses } = await resolve('many.example', signal)
  t.strictSame(addresses.toSorted(), many.toSorted())
})
