// A process of its own: memory is measured.
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { MSG_TRUNC } from '../../../../src/ffi/constants.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import { TcpWorker } from './tcp-worker.ts'

const connectionBuffer = 64 << 10
const connections = 50
const mib = 1 << 20

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (how?: { readonly type: 'minor' }) => void

/** Bytes of buffers that can't be collected. */
const allocated = async (): Promise<number> => {
  for (let i = 0; i < 3; i += 1) {
    collect()
    await new Promise(resolve => setImmediate(resolve))
  }
  return process.memoryUsage().arrayBuffers
}

/** What a worker's connections hold, take from queues, and how long that takes. */
t.test('accounts', { skip: linuxRelaySkip() }, async t => {
  /** Connections of which the reader takes nothing, and then all but `left` bytes. */
  const slowReaders = async (t: Test, left: number) => {
    const asked = new Set<number>()
    const worker = new TcpWorker(t, {
      limits: { connectionBuffer },
      over: calls => ({
        send: (fd, address, length, flags) => {
          if (length <= left) return -errno.EAGAIN
          if (!asked.has(fd)) {
            asked.add(fd)
            return -errno.EINTR
          }
          return calls.send(fd, address, length - left, flags)
        },
      }),
    })
    const before = await allocated()
    for (let i = 0; i < connections; i += 1) {
      const { client } = worker.connection()
      worker.bench.calls.send(client, worker.bench.memory.address, connectionBuffer, 0)
      worker.turn()
    }
    return { worker, more: (await allocated()) - before }
  }

  t.test('what slow readers have left over is counted as it is allocated', async t => {
    for (const left of [4 << 10, 48 << 10]) {
      const { worker, more } = await slowReaders(t, left)
      const held = worker.signs.heldBytes
      const wanted = connections * left
      t.ok(held >= wanted && held <= connections * connectionBuffer, `${held} bytes held`)
      t.ok(more <= held + mib / 2, `${more} allocated, ${held} counted`)
      worker.order({ kind: 'call', id: 0, call: { kind: 'kill' } })
      t.equal(worker.signs.heldBytes, 0)
    }
  })

  t.test('small collections find nothing of connections that are over', async t => {
    const ages = { lifetimeMs: 3_600_000, idleMs: 3_600_000 }
    for (const spec of [{}, { ages }]) {
      const worker = new TcpWorker(t, { spec, wantedCauses: [] })
      const open: ReturnType<TcpWorker['connection']>[] = []
      const pass = (count: number): number => {
        for (let i = 0; i < count; i += 1) {
          open.push(worker.connection())
          const oldest = open.length > 16 ? open.shift() : undefined
          for (const fd of oldest === undefined ? [] : [oldest.client, oldest.backend]) {
            worker.bench.close(fd)
            worker.turn(1)
          }
          if (i % 50 === 0) collect({ type: 'minor' })
        }
        return getHeapStatistics().used_heap_size
      }
      pass(100)
      // What was there before the others is old now, whatever becomes of it.
      for (let i = 0; i < 3; i += 1) collect()
      const before = pass(1500)
      const kept = (pass(3000) - before) / 3000
      t.ok(kept < 600, `${Math.round(kept)} bytes are left of each connection`)
    }
  })

  t.test('bytes that stay in the queue though they were sent end it', async t => {
    const worker = new TcpWorker(t, {
      limits: { heldBytes: 0 },
      over: calls => ({
        recv: (fd, address, size, flags) =>
          calls.recv(fd, address, flags === MSG_TRUNC ? size - 3 : size, flags),
      }),
    })
    const { client, backend } = worker.connection()
    const { bench } = worker
    bench.write(client, 'request')
    t.equal(await worker.hears(backend, 'request'), 'request')
    t.ok(await worker.until(() => worker.records.length === 1))
    t.match(worker.records, [{ cause: 'CD', detail: 'EPROTO', bytesToBackend: 7 }])
    t.equal(bench.read(backend), -errno.ECONNRESET, 'nothing came twice')
    t.equal(worker.held, 0)
  })

  t.test(
    'a signal while what was sent is taken from the queue costs nothing',
    async t => {
      let signals = 2
      const worker = new TcpWorker(t, {
        limits: { heldBytes: 0 },
        over: calls => ({
          recv: (fd, address, size, flags) => {
            if (flags === MSG_TRUNC && signals > 0) {
              signals -= 1
              return -errno.EINTR
            }
            return calls.recv(fd, address, size, flags)
          },
        }),
      })
      const { client, backend } = worker.connection()
      worker.bench.write(client, 'request')
      t.equal(await worker.hears(backend, 'request'), 'request')
      worker.bench.write(client, 'again')
      t.equal(await worker.hears(backend, 'again'), 'again')
      t.equal(signals, 0)
    },
  )

  t.test('a worker that looks after many connections gives signs of life', async t => {
    const worker = new TcpWorker(t, { limits: { tcpIdleTimeout: 60_000 } })
    for (let i = 0; i < connections; i += 1) worker.connection()
    // The idleWatch is due, and nothing else.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1100)
    const before = worker.signs.beats
    worker.turn(1)
    const beats = worker.signs.beats - before
    t.ok(beats > connections, `${beats} signs in a turn`)
  })
})
