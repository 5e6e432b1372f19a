import t from 'tap'
import { readAddressOf, socketKey } from '../../../src/kernel/connect-time/tables.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { skip } from './group.ts'
import { changesTo, makeStage, serviceTo } from './world.ts'

const services = Array.from({ length: 12 }, (_, i) => i)

/** Service n is at 10.96.0.n, and its endpoint at 127.0.n.list. */
const worldOf = (list: number) =>
  services.map(n =>
    serviceTo(`service-${n}`, [clusterIp(`10.96.0.${n}`)], [[`127.0.${n}.${list}`, 9]], {
      protocol: 'UDP',
    }),
  )

/** A matter of chance: programs that did not look twice failed it in some runs only. */
t.test(
  'who connects while lists change is not led to the endpoint of another Service',
  { skip },
  async t => {
    const { client, serve, steering } = await makeStage(t)
    const [one, two] = [worldOf(1), worldOf(2)]
    await serve(...one)
    const [toTwo, toOne] = [changesTo(two, one), changesTo(one, two)]
    const over = new AbortController()
    const connected = client.connectUdp('10.96.0.5', 80, 4000).finally(() => over.abort())
    const led = new Set<string>()
    let writes = 0
    while (!over.signal.aborted) {
      for (let i = 0; i < 100; i += 1) {
        await steering.writer.write(toTwo)
        await steering.writer.write(toOne)
      }
      writes += 200
      for (const [key] of steering.entries('reverse'))
        led.add(readAddressOf(key.slice(socketKey.address)).address.slice(0, 8))
      await new Promise(resolve => setImmediate(resolve))
    }
    t.same([...led], ['127.0.5.'], `${await connected} connects, ${writes} writes`)
  },
)
