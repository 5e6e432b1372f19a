import { EPOLL_CTL_ADD, EPOLL_CTL_MOD } from '../../../../src/ffi/constants.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import t from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { TcpWorker } from './tcp-worker.ts'

const EOF = ''
const MSG_OOB = 1

/** Things that come about between two turns of a worker, or in the middle of one. */
t.test('turn by turn', { skip: linuxRelaySkip() }, async t => {
  t.test('a FIN and a reset that come in one event are both passed on', async t => {
    const worker = new TcpWorker(t)
    const { bench } = worker
    const { client, backend } = worker.connection()
    bench.write(client, 'request')
    worker.endOf(client)
    worker.reset(client)
    worker.turn()
    t.equal(bench.read(backend), 'request')
    t.equal(bench.read(backend), EOF, 'as it would be without the relay')
    t.ok(await worker.until(() => worker.records.length === 1))
    t.ok(bench.write(backend, 'x') < 0, 'it was reset')
    t.match(worker.records, [{ cause: 'CD', bytesToBackend: 7 }])
    t.equal(worker.held, 0)
  })

  t.test('a FIN and a reset come after the data that was waiting for room', async t => {
    const worker = new TcpWorker(t)
    const { bench } = worker
    const { client, backend } = worker.connection()
    const { calls, memory } = bench
    let sent = 0
    // Until the relay reads no more; what it has not read then is in its kernel's queue.
    while (worker.counters.bytesToBackend === sent) {
      sent += calls.send(client, memory.address, 65_536, 0)
      worker.turn()
    }
    worker.endOf(client)
    worker.turn()
    worker.reset(client)
    worker.turn()
    let heard = 0
    let last: string | number = ''
    await worker.until(() => {
      last = bench.read(backend)
      if (typeof last === 'string') heard += last.length
      return last === EOF || (last as number) === -errno.ECONNRESET
    })
    t.equal(last, EOF)
    t.equal(heard, sent)
    t.ok(await worker.until(() => worker.records.length === 1))
    t.match(worker.records, [{ cause: 'CD', bytesToBackend: sent }])
  })

  t.test(
    'an answer and a reset that come before the dial is seen to be over',
    async t => {
      const worker = new TcpWorker(t)
      const { bench } = worker
      const client = worker.connect()
      worker.turn(1)
      const backend = worker.accept()
      bench.write(backend, 'answer')
      worker.reset(backend)
      t.equal(await worker.hears(client, 'answer'), 'answer')
      t.ok(await worker.until(() => worker.records.length === 1))
      t.match(worker.records, [{ cause: 'SD', detail: 'ECONNRESET', bytesToClient: 6 }])
      t.equal(worker.counters.dialRetries, 0, 'nobody else was asked')
      t.ok(bench.write(client, 'x') < 0, 'the client was reset')
      t.equal(worker.held, 0)
    },
  )

  for (const code of ['ENOBUFS', 'ENOMEM', 'EINTR'] as const) {
    t.test(`what can't be written for ${code} is written later`, async t => {
      let left = 3
      const worker = new TcpWorker(t, {
        over: calls => ({
          send: (...args) => (left-- > 0 ? -errno[code] : calls.send(...args)),
        }),
      })
      const { bench } = worker
      const { client, backend } = worker.connection()
      bench.write(client, 'hello')
      t.equal(await worker.hears(backend, 'hello'), 'hello')
    })

    t.test(`${code} while the rest is delivered after a reset loses nothing`, async t => {
      let left = 3
      const worker = new TcpWorker(t, {
        over: calls => ({
          send: (...args) => (left-- > 0 ? -errno[code] : calls.send(...args)),
        }),
      })
      const { bench } = worker
      const { client, backend } = worker.connection()
      bench.write(client, 'hello')
      worker.turn(1)
      worker.reset(client)
      t.equal(await worker.hears(backend, 'hello'), 'hello')
      t.ok(await worker.until(() => worker.held === 0))
    })
  }

  t.test('an attempt that wins late is heard of, whatever epoll_ctl answers', async t => {
    let isOn = false
    let adds = 0
    const worker = new TcpWorker(t, {
      over: calls => ({
        epollCtl: (epoll, operation, fd, event) => {
          if (isOn && operation === EPOLL_CTL_ADD) adds += 1
          // The client is watched and its first attempt is not; then nothing can be changed.
          const fails = operation === EPOLL_CTL_MOD || adds === 2
          return isOn && fails
            ? -errno.ENOMEM
            : calls.epollCtl(epoll, operation, fd, event)
        },
      }),
    })
    isOn = true
    const { bench } = worker
    const client = worker.connect()
    worker.turn()
    await worker.last(200)
    t.equal(adds, 3, 'there was a second attempt')
    const lost = worker.accept()
    t.equal(bench.read(lost), -errno.ECONNRESET)
    const backend = worker.accept()
    worker.turn()
    isOn = false
    bench.write(backend, 'hello')
    t.equal(await worker.hears(client, 'hello'), 'hello')
    bench.write(client, 'bye')
    t.equal(await worker.hears(backend, 'bye'), 'bye')
  })

  t.test('room is heard of though epoll_ctl had no memory to watch for it', async t => {
    let failures = 0
    const worker = new TcpWorker(t, {
      over: calls => ({
        epollCtl: (epoll, operation, fd, event) =>
          operation === EPOLL_CTL_MOD && failures++ === 0
            ? -errno.ENOMEM
            : calls.epollCtl(epoll, operation, fd, event),
      }),
    })
    const { bench } = worker
    const { client, backend } = worker.connection()
    let sent = 0
    for (let more = 1; more > 0; sent += more) {
      more = worker.fill(backend)
      worker.turn()
    }
    t.ok(failures > 0)
    worker.endOf(backend)
    let heard = 0
    const isAll = (): boolean => {
      const piece = bench.read(client)
      if (typeof piece === 'string' && piece !== EOF) heard += piece.length
      return heard === sent
    }
    t.ok(await worker.until(isAll), `${heard} of ${sent}`)
  })

  t.test('urgent data in the midst of bulk does not stop it', async t => {
    const worker = new TcpWorker(t)
    const { bench } = worker
    const { client, backend } = worker.connection()
    const { calls, memory } = bench
    let sent = 0
    let heard = 0
    let isOver = false
    const drain = (): boolean => {
      for (;;) {
        const piece = bench.read(backend)
        if (piece === EOF) isOver = true
        if (typeof piece !== 'string' || piece === EOF) return isOver
        heard += piece.length
      }
    }
    for (let i = 0; i < 10; i += 1) {
      sent += worker.fill(client)
      worker.turn()
      drain()
    }
    await worker.until(() => drain() || heard === sent)
    t.equal(heard, sent)
    t.equal(calls.send(client, memory.address, 1, MSG_OOB), 1)
    sent += bench.write(client, 'after')
    worker.endOf(client)
    t.ok(await worker.until(drain))
    // The urgent byte itself may be left out, as by any reader.
    t.ok(heard === sent || heard === sent + 1, `${sent} sent, ${heard} heard`)
  })

  t.test('an idle limit shorter than a dial leaves no attempt behind', async t => {
    const open = new Set<number>()
    const worker = new TcpWorker(t, {
      limits: { tcpIdleTimeout: 80, dialLadder: [20, 20, 20, 400] },
      over: calls => ({
        // Nobody answers: an address to which the SYN is never sent.
        connect: () => -errno.EINPROGRESS,
        epollCtl: (epoll, operation, fd, event) =>
          open.has(fd) ? 0 : calls.epollCtl(epoll, operation, fd, event),
        socket: (...args) => {
          const fd = calls.socket(...args)
          open.add(fd)
          return fd
        },
        close: fd => {
          open.delete(fd)
          return calls.close(fd)
        },
      }),
    })
    worker.connect()
    worker.turn()
    t.ok(await worker.until(() => open.size > 2), 'attempts overlap')
    t.ok(await worker.until(() => worker.records.length === 1))
    t.match(worker.records, [{ cause: 'sC' }])
    t.equal(open.size, 0, 'every attempt is closed')
    t.equal(worker.held, 0)
  })

  t.test('a worker that can not hear orders does not start', async t => {
    const over = () => ({ epollCtl: () => -errno.ENOMEM })
    t.throws(() => new TcpWorker(t, { over }), { code: 'ENOMEM' })
  })

  t.test('a reset is not waited for longer than a half-close', async t => {
    const worker = new TcpWorker(t, { limits: { halfCloseTimeout: 200 } })
    const { client } = worker.connection()
    let sent = 0
    for (let more = 1; more > 0; sent += more) {
      more = worker.fill(client)
      worker.turn()
    }
    worker.reset(client)
    t.ok(await worker.until(() => worker.records.length === 1))
    t.ok(await worker.until(() => worker.held === 0))
  })

  for (const call of ['accept', 'socket', 'send', 'recv', 'shutdown'] as const) {
    t.test(`a fault in the midst of ${call} ends that connection alone`, async t => {
      let isFaulty = false
      const worker = new TcpWorker(t, {
        over: calls => ({
          [call]: (...args: [number, number, number, number]) => {
            const result = calls[call](...args)
            if (!isFaulty || result < 0) return result
            isFaulty = false
            throw new Error(`${call} is faulty`)
          },
        }),
      })
      const { bench } = worker
      const other = worker.connection()
      isFaulty = true
      const client = worker.connect()
      worker.turn()
      bench.write(client, 'x')
      worker.turn()
      worker.endOf(client)
      worker.turn()
      t.match(worker.faults, [/is faulty/])
      bench.write(other.client, 'hello')
      t.equal(await worker.hears(other.backend, 'hello'), 'hello')
      t.equal(worker.held, 2, 'what the other holds')
      t.equal(worker.counters.active, 1)
    })
  }
})
