import { silentObserver } from '../../../src/relay/relay.ts'
import { SupervisedRelay } from '../../../src/relay/supervised/supervise-relay.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { defaultLimits, listenerSpec } from '../../support/relay-fixture.ts'
import { compiled } from './fixture.ts'

// A process with a supervised relay, for tests that end it: says the pid of its data plane
// when that listens, and drains when it gets SIGINT. Arguments: host, port, port behind it,
// and what starts the data plane, if anything.

const [host = '', port = '', backend = '', ...launcher] = process.argv.slice(2)
const relay = new SupervisedRelay({
  clock: systemClock,
  random: Math.random,
  relay: 'portable',
  limits: defaultLimits,
  observer: {
    ...silentObserver,
    fault: (_listener, error) => void process.send?.({ fault: error.message }),
  },
  openFileLimit: 1000,
  workers: 1,
  program: { ...compiled(), launcher },
})
const endpoint = { key: 'one', address: host, port: Number(backend) }
const binds = [{ address: host, port: Number(port) }]
await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
process.on('SIGINT', () => {
  process.send?.({ draining: true })
  void relay.drain(10_000).then(() => process.disconnect())
})
process.send?.({ pid: relay.pid })
