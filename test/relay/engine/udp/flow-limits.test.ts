import t from 'tap'
import { SOCK_DGRAM } from '../../../../src/ffi/constants.ts'
import { DatagramBatch } from '../../../../src/relay/engine/udp/datagram-batch.ts'
import {
  FlowLimits,
  type LimitedFlow,
  ListenerFlows,
} from '../../../../src/relay/flow-limits.ts'
import {
  type Keeper,
  KeptDatagrams,
} from '../../../../src/relay/engine/udp/kept-datagrams.ts'
import { TurnShare } from '../../../../src/relay/engine/udp/turn-share.ts'
import { Place } from '../../../../src/relay/flow-ages.ts'
import { FakeClock } from '../../../support/fake-clock.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { defaultLimits } from '../../../support/relay-fixture.ts'
import { testHost } from '../../../support/ports.ts'
import { Bench } from '../calls-bench.ts'

t.test('late in a turn sockets have little of it', async t => {
  const share = new TurnShare(64)
  let sockets = 0
  while (share.most === 64) {
    share.spend(share.most)
    sockets += 1
  }
  t.equal(sockets, 32)
  t.equal(share.most, 2)
  share.renew()
  t.equal(share.most, 64)
})

class Flow implements LimitedFlow<Flow> {
  readonly ownPlace: Place<Flow> = new Place<Flow>(this)
  readonly commonPlace: Place<Flow> = new Place<Flow>(this)
  answered = false
  touchedAt = 0
  readonly #close: (flow: Flow) => void

  constructor(close: (flow: Flow) => void) {
    this.#close = close
  }

  close(): void {
    this.#close(this)
  }

  unanswered(): void {
    this.close()
  }
}

t.test('of many flows that are over some end in a turn, the others soon', async t => {
  const clock = new FakeClock()
  const limits = { ...defaultLimits, udpReplyTimeout: 5000 }
  const flows = new ListenerFlows(new FlowLimits<Flow>(clock, limits), 1e6)
  let open = 0
  for (let i = 0; i < 5000; i += 1) {
    open += 1
    flows.add(
      new Flow(flow => {
        open -= 1
        flows.remove(flow)
      }),
    )
  }
  clock.advance(5100)
  t.equal(open, 5000 - 2048)
  clock.advance(10)
  t.equal(open, 0)
  t.equal(clock.waiting, 0)
})

t.test(
  'a flow that was answered keeps no long datagram',
  { skip: linuxRelaySkip() },
  async t => {
    const bench = new Bench(t, 1 << 17)
    const { calls, memory } = bench
    const batch = new DatagramBatch(calls, true)
    const kept = new KeptDatagrams(calls)
    const { fd, at } = bench.bound(SOCK_DGRAM, testHost)
    const [client] = bench.connect(SOCK_DGRAM, at)
    const put = (length: number): void => {
      t.equal(calls.send(client, memory.address, length, 0), length)
      t.equal(batch.receiveNamed(fd, false, 1), 1)
    }
    const flow: Keeper & { answered: boolean } = {
      answered: false,
      kept: undefined,
      keptLength: -1,
    }
    put(60_000)
    kept.keep(flow, batch, 0)
    t.equal(flow.keptLength, 60_000)
    flow.answered = true
    put(100)
    kept.keep(flow, batch, 0)
    t.equal(flow.keptLength, 100)
    t.ok((flow.kept?.byteLength ?? 0) <= 2048)
    put(3000)
    kept.keep(flow, batch, 0)
    t.equal(flow.keptLength, -1)
  },
)
