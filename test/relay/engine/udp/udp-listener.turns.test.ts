import t from 'tap'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { testHost } from '../../../support/ports.ts'
import { echoUdp } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'
import { udpWorker } from './udp-worker.ts'

t.test(
  'while descriptors are another worker’s turn, a flow goes only for one that comes',
  { skip: linuxRelaySkip() },
  async t => {
    const backend = await echoUdp(t)
    const memory = newDescriptorsMemory(104, 4, 3)
    const [worker, other] = [1, 2].map(thread => new Descriptors(memory, thread))
    const { port, counters, held } = await udpWorker(
      t,
      [backend.endpoint],
      () => ({}),
      {},
      testHost,
      memory,
    )
    const welcome = async (text: string): Promise<void> => {
      const client = await udpClient(t, port)
      t.equal(await client.ask(text), text)
    }
    for (let i = 0; i < 10; i += 1) await welcome(`first ${i}`)
    t.ok(worker?.take(60), 'TCP connections, of more than the share')
    other?.wait(true)
    t.equal(held(), 70)
    for (let i = 0; i < 10; i += 1) await welcome(`then ${i}`)
    t.match(counters(), { accepted: 20, active: 10, datagramsDropped: {} })
    t.strictSame(counters().datagramsDropped, {})
    t.equal(held(), 70)
  },
)
