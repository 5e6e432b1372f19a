import { parseArgs } from 'node:util'
import { faultRun } from '../test/fault-run/fault-run.ts'
import { longPace } from '../test/fault-run/paces.ts'
import { tableOf } from '../test/fault-run/report.ts'
import { checkReport } from '../test/fault-run/sane.ts'

/** The fault run: `--minutes 10 --seed N`; `--quiet` leaves the actions out. */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    quiet: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const ms = Number(values.minutes) * 60_000
if (!Number.isInteger(seed) || !(ms > 0))
  throw new Error('give --minutes above zero, and a whole number for --seed')
console.log(`seed ${seed}`)
const say = values.quiet ? () => {} : console.log
const report = await faultRun({ seed, ms, pace: longPace, say })
console.log(tableOf(report))
const insane = checkReport(report)
for (const what of insane) console.error(what)
// Sockets that the test server reset in a bad moment may be left.
process.exit(insane.length === 0 ? 0 : 1)
