import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t from 'tap'
import { AF_UNIX, EPOLLIN, SOCK_SEQPACKET } from '../../../../src/ffi/constants.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import type { Syscalls } from '../../../../src/ffi/syscalls.ts'
import { RelayEngine } from '../../../../src/relay/engine/relay-engine.ts'
import type { WorkerChannel } from '../../../../src/relay/engine/socket-layer.ts'
import { DatagramSocket } from '../../../../src/relay/sockets/node/datagram-socket.ts'
import { ListeningSocket } from '../../../../src/relay/sockets/node/listening-socket.ts'
import { NodeCalls } from '../../../../src/relay/sockets/node/node-calls.ts'
import { nodeLayer } from '../../../../src/relay/sockets/node/node-layer.ts'
import { systemClock } from '../../../../src/util/clock.ts'
import { onLinux, portOf } from '../../../support/connection.ts'
import { freeTcpPort, testHost } from '../../../support/ports.ts'
import { carryingFds, relayFixture } from '../../../support/relay-fixture.ts'
import { reset } from '../../../support/reset.ts'
import { dial, echoBackend } from '../../../support/tcp-backend.ts'
import { until } from '../../../support/until.ts'

t.test('a client that resets before it is accepted is no fault', onLinux, async t => {
  const calls = new NodeCalls(65_536)
  const server = createServer({ pauseOnConnect: true }).listen(0, testHost)
  await once(server, 'listening')
  const listening = new ListeningSocket(server, calls.streams(false), 0, () => {})
  const fd = calls.add(listening)
  t.teardown(() => calls.close(fd))
  const { address } = calls.allocate(28)
  for (const comesFirst of [true, false]) {
    if (comesFirst) listening.watched(EPOLLIN)
    const client = connect(portOf(server), testHost)
    await once(client, 'connect')
    if (comesFirst) await until('it has come', () => listening.state === EPOLLIN)
    reset(client)
    await once(client, 'close')
    listening.watched(EPOLLIN)
    await until('it has come', () => listening.state === EPOLLIN)
    const accepted = calls.accept(fd, address)
    t.ok(accepted >= 0 || accepted === -errno.ECONNABORTED, String(accepted))
    if (accepted >= 0) calls.close(accepted)
    listening.watched(0)
  }
  t.equal(calls.accept(fd, address), -errno.EAGAIN)
})

t.test('descriptors are not passed on by this layer', async t => {
  const calls: Syscalls = new NodeCalls(65_536)
  const { address } = calls.allocate(64)
  const fd = calls.socket(AF_UNIX, SOCK_SEQPACKET, 0)
  t.equal(calls.sendmsg(fd, address, 0), -errno.ENOSYS)
  t.equal(calls.recvmsg(fd, address, 0), -errno.ENOSYS)
  t.equal(calls.close(fd), 0)
})

t.test('a reply that fails says nothing of the socket that all share', async t => {
  const socket = DatagramSocket.ofFamily(false)
  t.teardown(() => socket.close())
  t.equal(socket.sendTo(Buffer.from('x'), { address: '::1', port: 9 }), 1)
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(socket.takeError(), 0)
  t.equal(socket.state, 0)
  const long = Buffer.alloc(65_508)
  t.equal(socket.sendTo(long, { address: testHost, port: 9 }), -errno.EMSGSIZE)
})

t.test('a worker that dies is followed by one that serves', async t => {
  const channels: WorkerChannel[] = []
  const { listen, relay, faults } = relayFixture(t, request => {
    const layer = nodeLayer(request.limits)
    return new RelayEngine({
      clock: systemClock,
      workers: 1,
      layer: {
        ...layer,
        startWorker: (...of) => {
          const channel = layer.startWorker(...of)
          channels.push(channel)
          return channel
        },
      },
      ...request,
    })
  })
  const backend = await echoBackend(t)
  const port = await freeTcpPort()
  const binds = [{ address: testHost, port }]
  await listen({ binds, endpoints: [backend.endpoint] })
  const before = dial(t, port)
  before.write('1')
  await once(before, 'data')
  const ended = new Promise<void>(resolve => {
    before.on('error', () => {}).on('close', () => resolve())
  })
  channels[0]?.kill()
  await ended
  t.match(
    faults.map(({ message }) => message),
    [/^worker 1 of the relay has died: /],
  )
  const after = dial(t, port)
  after.write('2')
  t.equal(String(await once(after, 'data')), '2')
  t.equal(channels.length, 2)
  t.equal(carryingFds(relay.stats()), 2, 'those of the first are given back')
})
