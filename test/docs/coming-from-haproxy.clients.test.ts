// A process of its own: it mostly waits.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { serverDirectory } from '../health/server-process.ts'
import { ask, tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import {
  allUp,
  countOf,
  named,
  session,
  skipPairs as skip,
  wordOf,
} from './haproxy-clients.ts'
import { placePair } from './haproxy-pair.ts'
import type { Address } from './placed-example.ts'

// As in coming-from-haproxy.test.ts; here: which clients are served, and what is told of them.
t.jobs = 6

t.test('No more connections than the server takes', { skip }, async t => {
  const { at, start } = await placePair(t, 'server-limit')
  await named(t, 'pg0', at('10.0.0.5:5432'))
  await named(t, 'pg1', at('10.0.0.6:5432'))
  const { both } = await start()
  for (const to of both) {
    const sessions = Array.from({ length: 80 }, () => session(t, to))
    const words = await Promise.all(sessions.map(({ word }) => word))
    t.strictSame(countOf(words), { pg0: 40, pg1: 40 }, to.name)
    const next = session(t, to)
    const heard = await Promise.race([next.word, sleep(200, 'waits')])
    t.equal(heard, 'waits', to.name)
    sessions[0]?.socket.end()
    t.equal(await next.word, words[0], `${to.name}: the place that became free`)
  }
})

t.test('So many from each client', { skip }, async t => {
  const { at, start } = await placePair(t, 'client-limits')
  await named(t, 'app', at('10.0.0.5:9000'))
  const { both } = await start()
  for (const to of both) {
    const [from, another, hasty] = ['127.8.0.1', '127.8.0.2', '127.8.0.3']
    for (let i = 0; i < 20; i += 1)
      t.equal(await session(t, to, { from }).word, 'app', `${to.name}: ${i}`)
    t.equal(await wordOf(t, to, { from }), '', `${to.name}: the 21st`)
    t.equal(await wordOf(t, to, { from: another }), 'app', `${to.name}: another client`)
    // Few at a time, and only when those before have gone: not more than may be open.
    await until(`${to.name}: too many in a second`, async () => {
      const burst = Array.from({ length: 5 }, () => wordOf(t, to, { from: hasty }))
      return (await Promise.all(burst)).includes('')
    })
  }
})

t.test('Only these clients', { skip }, async t => {
  const list = join(serverDirectory(t), 'blocked.txt')
  writeFileSync(list, '# of the office\n127.7.1.0/24\n')
  const { at, start } = await placePair(t, 'allowed-clients', text =>
    text
      .replaceAll('/etc/proxy/blocked.txt', list)
      .replaceAll('10.0.0.0/8', '127.7.0.0/16'),
  )
  await named(t, 'pg0', at('10.0.0.5:5432'))
  const { both, haproxy, usher } = await start()
  const [blocked, office, outside] = ['127.7.1.1', '127.7.2.1', '127.8.0.1']
  for (const to of both) {
    t.equal(await wordOf(t, to, { from: office }), 'pg0', `${to.name}: the office`)
    t.equal(await wordOf(t, to, { from: blocked }), '', `${to.name}: blocked`)
    t.equal(await wordOf(t, to, { from: outside }), '', `${to.name}: not of the office`)
  }
  writeFileSync(list, '127.7.2.0/24\n')
  await until(
    'Usher has read it again',
    async () => (await wordOf(t, usher, { from: office })) === '',
  )
  t.equal(await wordOf(t, usher, { from: blocked }), 'pg0')
  t.equal(await wordOf(t, haproxy, { from: office }), 'pg0', 'HAProxy has not')
})

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
/** '' where there is none. */
const addressAt = (bytes: Buffer, from: number, port: number): string =>
  bytes.length < 28
    ? ''
    : `${bytes.subarray(from, from + 4).join('.')}:${bytes.readUInt16BE(port)}`

/** A server that says what the header of a client says; the commands of all headers so far. */
const headerBackend = async (t: Test, { host, port }: Address) => {
  const commands = new Set<number | undefined>()
  const serve = (socket: Socket): void => {
    socket.on('end', () => socket.end())
    socket.on('data', bytes => {
      commands.add(bytes[12])
      const [client, dialled] = [addressAt(bytes, 16, 24), addressAt(bytes, 20, 26)]
      if (!bytes.subarray(0, 12).equals(signature)) socket.end('no header')
      else if (bytes[12] === 0x21) socket.end(`${client} to ${dialled}`)
    })
  }
  await tcpBackend(t, serve, host, port)
  return commands
}

t.test("The client's address for the next proxy", { skip }, async t => {
  const { at, start } = await placePair(t, 'send-proxy')
  const commands = await headerBackend(t, at('10.0.0.5:443'))
  const { both, usher } = await start()
  await allUp(usher.process)
  for (const to of both) {
    const from = '127.8.0.1'
    const { word, socket } = session(t, to, { from })
    await once(socket, 'connect')
    const client = `${from}:${socket.localPort}`
    t.equal(await word, `${client} to ${to.host}:${to.port}`, to.name)
  }
  await until('a check has been there', () => commands.has(0x20))
})

t.test('Clients behind a load balancer', { skip }, async t => {
  const { at, start } = await placePair(t, 'accept-proxy', text =>
    text.replaceAll('10.1.0.0/16', '127.7.0.0/16'),
  )
  await headerBackend(t, at('10.0.0.5:5432'))
  const { both } = await start()
  for (const to of both) {
    const opening = 'PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n'
    const told = await wordOf(t, to, { from: '127.7.0.1', opening })
    t.equal(told, '192.0.2.1:1000 to 192.0.2.2:2000', to.name)
    const from = '127.8.0.1'
    const plain = await wordOf(t, to, { from })
    t.ok(plain.startsWith(`${from}:`), `${to.name}: others are who they are`)
  }
})

/** The lines that a syslog server gets. */
const syslog = async (t: Test, { host, port }: Address): Promise<readonly string[]> => {
  const lines: string[] = []
  const socket = createSocket('udp4', line => void lines.push(line.toString()))
  t.teardown(() => new Promise<void>(resolve => socket.close(() => resolve())))
  socket.bind(port, host)
  await once(socket, 'listening')
  return lines
}

t.test('A log line for each connection', { skip }, async t => {
  const { at, start } = await placePair(t, 'access-log')
  const logs = [
    await syslog(t, at('127.0.0.1:514')),
    await syslog(t, at('127.0.0.2:514')),
  ]
  // Of app0 there is nothing.
  const { host, port } = at('10.0.0.6:9000')
  await tcpBackend(t, socket => void socket.end('app1'), host, port)
  const { both } = await start()
  const line =
    /^<134>.* (?:haproxy|usher)\[\d+\]: 127\.8\.0\.1:\d+ \[.*\] app app\/(\S+) \d+\/\d+\/\d+ 4 -- \d+\/\d+\/\d+\/\d+\/(\S+) \d+\/\d+\n?$/
  for (const [i, to] of both.entries()) {
    for (let k = 0; k < 4; k += 1)
      t.equal((await ask(to.port, to.host, '127.8.0.1')).text, 'app1', to.name)
    const found = () =>
      (logs[i] ?? []).map(text => line.exec(text)).filter(one => one !== null)
    await until(
      `${to.name}: four lines, not ${logs[i]?.join('')}`,
      () => found().length === 4,
    )
    const server = to.name === 'Usher' ? `${host}:${port}` : 'app1'
    t.ok(
      found().every(([, one]) => one === server),
      to.name,
    )
    t.ok(
      found().some(([, , retries]) => retries === '+1'),
      `${to.name}: another server`,
    )
  }
})
