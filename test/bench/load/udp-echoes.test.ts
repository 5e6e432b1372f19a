import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { type Load, measureLoad } from '../../../bench/load/load.ts'
import type { LoadAnswer, UdpEchoes } from '../../../bench/load/question.ts'
import { nativeUdpEchoes, udpEchoes } from '../../../bench/load/udp.ts'
import { nativeCalls } from '../../../bench/native-calls.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

type Make = (plan: UdpEchoes) => Load

const native = nativeCalls()
const generators: readonly [string, Make | string][] = [
  ['by node', udpEchoes],
  [
    'many in a call',
    typeof native === 'string' ? native : plan => nativeUdpEchoes(plan, native),
  ],
]

const ask = (make: Make, plan: UdpEchoes, seconds: number): Promise<LoadAnswer> =>
  measureLoad(make(plan), seconds, { backend: [], proxy: [] })

/** `reply` gives what comes back for a datagram. */
const serveUdp = async (
  tap: Pick<Test, 'teardown'>,
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

for (const [how, found] of generators) {
  const skip = typeof found === 'string' ? found : false
  const make = found as Make
  t.test(`echoes are as many as the server has sent back (${how})`, { skip }, async t => {
    let sent = 0
    const flows = new Set<number>()
    const to = await serveUdp(t, message => {
      sent += 1
      flows.add(message.readUInt16BE(6))
      t.equal(message.length, 1400)
      return [message]
    })
    const load = make({ to, flows: 3, bytes: 1400, window: 4 })
    await until('some are done', () => load.done() > 500)
    t.ok(sent - load.done() <= 12 && sent >= load.done())
    await load.stop()
    t.equal(flows.size, 3)
    t.same(load.errors.counts, {})
  })

  t.test(`sockets need not be connected (${how})`, { skip }, async t => {
    const to = await serveUdp(t, message => [message])
    const plan = { to, flows: 2, bytes: 64, window: 4, unconnected: true } as const
    const { done, errors } = await ask(make, plan, 0.2)
    t.ok(done > 100)
    t.same(errors, {})
  })

  t.test(`lost datagrams are counted and replaced (${how})`, { skip }, async t => {
    let count = 0
    let dropped = 0
    const to = await serveUdp(t, message => {
      count += 1
      if (count % 50 !== 0 || dropped === 3) return [message]
      dropped += 1
      return []
    })
    const { done, errors } = await ask(make, { to, flows: 2, bytes: 64, window: 4 }, 0.8)
    t.ok(done > 100)
    t.same(errors, { lost: 3 })
  })

  t.test(
    `echoes with other contents, or twice, do not count (${how})`,
    { skip },
    async t => {
      const wrong = await serveUdp(t, message => {
        const other = Buffer.from(message)
        other[40] = 0
        return [other]
      })
      const changed = await ask(make, { to: wrong, flows: 1, bytes: 64, window: 2 }, 0.1)
      t.match(changed, { done: 0, errors: { 'wrong response': 2 } })
      const short = await serveUdp(t, message => [message.subarray(0, 20)])
      const cut = await ask(make, { to: short, flows: 1, bytes: 64, window: 2 }, 0.1)
      t.match(cut, { done: 0, errors: { 'wrong response': 2 } })
      const double = await serveUdp(t, message => [message, message])
      const twice = await ask(make, { to: double, flows: 1, bytes: 64, window: 2 }, 0.1)
      t.ok((twice.errors['late or twice'] ?? 0) >= twice.done - 5, `${twice.done}`)
    },
  )

  t.test(`a UDP port that nobody has is told as losses (${how})`, { skip }, async t => {
    const to = { address: testHost, port: await freeUdpPort() }
    const { done, errors } = await ask(make, { to, flows: 2, bytes: 64, window: 2 }, 0.6)
    t.equal(done, 0)
    t.ok((errors['lost'] ?? 0) + (errors['ECONNREFUSED'] ?? 0) >= 4)
    t.ok((errors['ECONNREFUSED'] ?? 0) < 100)
  })
}
