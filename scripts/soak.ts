import { parseArgs } from 'node:util'
import { checkSoak } from '../test/soak/sane.ts'
import { relayToSoak } from '../test/soak/relay-to-soak.ts'
import { soak } from '../test/soak/soak.ts'

/**
 * The soak: `--minutes 60 --seed N --relay linux|portable --workers 1|2|4`. Exits with 1
 * when a byte was wrong, a connection failed without a reason, or something leaked.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    relay: { type: 'string', default: 'linux' },
    workers: { type: 'string', default: '2' },
  },
})
const seed = Number(values.seed)
const ms = Number(values.minutes) * 60_000
if (!Number.isInteger(seed) || !(ms > 0))
  throw new Error('give --minutes above zero, and a whole number for --seed')
const relay = relayToSoak(values.relay, values.workers)
console.log(`seed ${seed}, ${values.relay} relay`)

const ends: (() => unknown)[] = []
const teardown = (end: () => unknown): void => void ends.push(end)
const say = console.log
const report = await soak({ teardown }, { relay, seed, ms, mostBytes: 8e6, say })
for (const end of ends.toReversed()) await end()
const { visits, udpVisits, changes, spawns, kills, explained, datagramsLost } = report
console.log(
  `${visits} connections, ${udpVisits} UDP flows (${datagramsLost} datagrams sent again), ` +
    `${changes} changes, ${spawns} programs started, ${kills} workers killed, ` +
    `${explained} visits met a closed door or a dying worker`,
)
const insane = checkSoak(report)
for (const what of insane) console.error(what)
console.log(
  insane.length === 0 ? 'All bytes were right, and nothing is left.' : 'NOT sane.',
)
process.exit(insane.length === 0 ? 0 : 1)
