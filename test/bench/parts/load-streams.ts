import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import t from 'tap'
import { ackedBytes } from '../../../src/bench/backends/sink.ts'
import { BulkLoad } from '../../../src/bench/load/bulk.ts'
import { UdpEchoesLoad } from '../../../src/bench/load/udp-echoes.ts'
import type { Endpoint } from '../../../src/bench/services.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'
import { ask, askUnchecked, serve } from './load-servers.ts'

interface Sides {
  sent: number
  received: number
}

const serveSource = (tap: Parameters<typeof serve>[0], sides: Sides) =>
  serve(tap, socket => {
    const block = Buffer.alloc(100_000)
    const fill = (): void => {
      while (!socket.destroyed && socket.write(block)) sides.sent += block.length
    }
    socket.on('drain', fill).resume()
    fill()
  })

const serveSink = (tap: Parameters<typeof serve>[0], sides: Sides) =>
  serve(tap, socket => {
    let [received, acked] = [0, 0]
    socket.on('data', chunk => {
      received += chunk.length
      sides.received += chunk.length
      const acks = Math.floor(received / ackedBytes) - acked
      acked += acks
      if (acks > 0) socket.write(Buffer.alloc(acks))
    })
  })

t.test('what is uploaded counts when it has arrived', async t => {
  const sides = { sent: 0, received: 0 }
  const load = new BulkLoad({ upload: await serveSink(t, sides), streams: 2 })
  await until('some has arrived', () => load.done() > 50 * ackedBytes)
  t.equal(load.done() % ackedBytes, 0)
  t.ok(load.done() <= sides.received)
  await load.stop()
  t.same(load.errors.counts, {})
})

t.test('downloads and uploads run side by side, so many each', async t => {
  const sides = { sent: 0, received: 0 }
  const [download, upload] = [await serveSource(t, sides), await serveSink(t, sides)]
  const { done, errors, seconds } = await ask({
    kind: 'bulk',
    download,
    upload,
    streams: 2,
  })
  t.ok(done > 10 * ackedBytes && done < sides.sent + sides.received, `${done}`)
  t.ok(seconds >= 0.29)
  t.same(errors, {})
})

t.test('streams that fail or stand still are told as errors', async t => {
  const refusing = { address: testHost, port: await freeTcpPort() }
  const silent = await serve(t, () => undefined)
  const closing = await serve(t, socket => void socket.end('x'))
  const of = async (download: Endpoint) =>
    (await ask({ kind: 'bulk', download, streams: 2 }, 0.1)).errors
  t.same(await of(refusing), { ECONNREFUSED: 2 })
  t.same(await of(silent), { 'nothing came': 2 })
  t.same(await of(closing), { 'closed early': 2 })
  const upload = await askUnchecked({ kind: 'bulk', upload: silent, streams: 1 }, 0.1)
  t.match(upload, { done: 0, errors: { 'nothing came': 1 } })
})

/** `reply` gives what comes back for a datagram. */
const serveUdp = async (
  tap: Parameters<typeof serve>[0],
  reply: (message: Buffer) => readonly Buffer[],
): Promise<Endpoint> => {
  const socket: UdpSocket = createSocket('udp4')
  socket.on('message', (message, { port, address }) => {
    for (const datagram of reply(message)) socket.send(datagram, port, address)
  })
  socket.bind(0, testHost)
  await once(socket, 'listening')
  tap.teardown(() => socket.close())
  return { address: testHost, port: socket.address().port }
}

t.test('echoes are as many as the server has sent back', async t => {
  let sent = 0
  const flows = new Set<number>()
  const to = await serveUdp(t, message => {
    sent += 1
    flows.add(message.readUInt16BE(6))
    t.equal(message.length, 1400)
    return [message]
  })
  const load = new UdpEchoesLoad({ to, flows: 3, bytes: 1400, window: 4 })
  await until('some are done', () => load.done() > 500)
  t.ok(sent - load.done() <= 12 && sent >= load.done())
  await load.stop()
  t.equal(flows.size, 3)
  t.same(load.errors.counts, {})
})

t.test('lost datagrams are counted and replaced', async t => {
  let count = 0
  let dropped = 0
  const to = await serveUdp(t, message => {
    count += 1
    if (count % 50 !== 0 || dropped === 3) return [message]
    dropped += 1
    return []
  })
  const { done, errors } = await ask(
    { kind: 'udp-echoes', to, flows: 2, bytes: 64, window: 4 },
    0.8,
  )
  t.ok(done > 100)
  t.same(errors, { lost: 3 })
})

t.test('echoes with other contents, or twice, do not count', async t => {
  const wrong = await serveUdp(t, message => {
    const other = Buffer.from(message)
    other[40] = 0
    return [other]
  })
  const kind = 'udp-echoes'
  const changed = await ask({ kind, to: wrong, flows: 1, bytes: 64, window: 2 }, 0.1)
  t.match(changed, { done: 0, errors: { 'wrong response': 2 } })
  const short = await serveUdp(t, message => [message.subarray(0, 20)])
  const cut = await ask({ kind, to: short, flows: 1, bytes: 64, window: 2 }, 0.1)
  t.match(cut, { done: 0, errors: { 'wrong response': 2 } })
  const double = await serveUdp(t, message => [message, message])
  const twice = await ask({ kind, to: double, flows: 1, bytes: 64, window: 2 }, 0.1)
  t.ok((twice.errors['late or twice'] ?? 0) >= twice.done - 5, `${twice.done}`)
})

t.test('a UDP port that nobody has is told as losses', async t => {
  const to = { address: testHost, port: await freeUdpPort() }
  const kind = 'udp-echoes'
  const { done, errors } = await ask({ kind, to, flows: 2, bytes: 64, window: 2 }, 0.6)
  t.equal(done, 0)
  t.ok((errors['lost'] ?? 0) + (errors['ECONNREFUSED'] ?? 0) >= 4)
  t.ok((errors['ECONNREFUSED'] ?? 0) < 100)
})
