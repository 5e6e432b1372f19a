// A process of its own: long, and it mostly waits.
import t from 'tap'
import { faultRun } from '../fault-run/fault-run.ts'
import { slicePace } from '../fault-run/paces.ts'
import { tableOf } from '../fault-run/report.ts'
import { checkReport } from '../fault-run/sane.ts'

// A slice of the fault run; `npm run test:faults` is the whole of it.
t.test(
  'whatever the API server does, what is served is what it holds',
  { skip: process.platform !== 'linux' && 'needs the whole of 127.0.0.0/8' },
  async t => {
    const seed = Number(process.env['FAULT_SEED'] ?? 501)
    t.comment(`FAULT_SEED=${seed} does the same again`)
    const report = await faultRun({ seed, ms: 22_000, pace: slicePace })
    t.comment(tableOf(report))
    t.strictSame(checkReport(report), [])
  },
)
