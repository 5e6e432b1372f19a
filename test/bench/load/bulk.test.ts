import t from 'tap'
import { ackedBytes } from '../../../bench/backends/servers.ts'
import { BulkLoad } from '../../../bench/load/bulk.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { ask, askUnchecked, serve, serveHttp } from './servers.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

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
  // Long enough for each stream to get its turn on a busy host.
  const traffic = { kind: 'bulk', download, upload, streams: 2 } as const
  const { done, errors, seconds } = await ask(traffic, 2)
  t.ok(done > 10 * ackedBytes && done < sides.sent + sides.received, `${done}`)
  t.ok(seconds >= 1.9)
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

t.test('requests and a download beside them are counted apart', async t => {
  const sides = { sent: 0, received: 0 }
  const download = await serveSource(t, sides)
  const { to } = await serveHttp(t)
  const {
    done,
    errors,
    besideBytes = 0,
  } = await ask({
    kind: 'mixed',
    to,
    path: '/64',
    connections: 4,
    perSecond: 200,
    download,
  })
  t.ok(done > 30, `${done} requests`)
  t.ok(besideBytes > 1e6 && besideBytes <= sides.sent, `${besideBytes} bytes`)
  t.same(errors, {})
})

t.test('a download that ends early is told beside the requests', async t => {
  const download = await serve(t, socket => void socket.end('short'))
  const { to } = await serveHttp(t)
  const mixed = {
    kind: 'mixed',
    to,
    path: '/64',
    connections: 1,
    perSecond: 50,
    download,
  }
  const { errors } = await ask(mixed as Parameters<typeof ask>[0])
  t.same(errors, { 'closed early': 1, 'nothing came': 1 })
})
