import t, { type Test } from 'tap'
import type { Syscalls } from '../../../../src/ffi/syscalls.ts'
import type { RelayListener } from '../../../../src/relay/relay.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { TcpWorker } from './tcp-worker.ts'

const counted = [
  'accept',
  'socket',
  'connect',
  'send',
  'recv',
  'shutdown',
  'close',
  'setsockopt',
  'getsockopt',
  'getsockname',
  'getpeername',
  'ioctl',
  'epollCtl',
] as const satisfies readonly (keyof Syscalls)[]

/** The calls of a request that comes before the endpoint is connected to, with its answer. */
const callsOf = async (t: Test, spec: Partial<RelayListener>) => {
  const made: string[] = []
  const worker = new TcpWorker(t, {
    spec,
    over: calls =>
      Object.fromEntries(
        counted.map(name => [
          name,
          (...args: number[]) => {
            made.push(name)
            const call: (...given: number[]) => number = calls[name]
            return call(...args)
          },
        ]),
      ),
  })
  const client = worker.connect()
  worker.bench.write(client, 'request')
  made.length = 0
  worker.turn()
  const backend = worker.accept()
  worker.turn()
  const heard = worker.bench.read(backend)
  worker.bench.write(backend, 'answer')
  worker.endOf(backend)
  worker.turn()
  const answer = worker.bench.read(client)
  worker.endOf(client)
  await worker.until(() => worker.records.length === 1)
  return { made: made.filter(name => name !== 'accept').join(' '), heard, answer }
}

/** Of a short request and its answer; getsockopt is for the round-trip time, once a second. */
const usual =
  'epollCtl socket setsockopt connect epollCtl recv send recv send shutdown recv ' +
  'getsockopt setsockopt close setsockopt close'

t.test('the system calls of a connection', { skip: linuxRelaySkip() }, async t => {
  t.test('as they are meant to be', async t => {
    const { made, heard, answer } = await callsOf(t, {})
    t.equal(made, usual)
    t.same([heard, answer], ['request', 'answer'])
  })

  t.test('with a header one more, which goes with the request', async t => {
    const { made, heard } = await callsOf(t, { proxyProtocol: 'v1' })
    t.equal(made, usual.replace('recv', 'getsockname recv'))
    t.match(heard, /^PROXY TCP4 .*\r\nrequest$/)
  })
})
