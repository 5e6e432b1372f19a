import type { Test } from 'tap'
import { nodeAddresses } from '../../../support/zznet/addresses.ts'
import { type CaptureRequest, withUsher } from './with-usher.ts'
import { matrix, tryCells } from './cells.ts'
import type { Manner } from './oracle.ts'
import { addressTable, faultLines, resultTable } from './report.ts'

export interface MatrixRequest extends CaptureRequest {
  readonly manner: Manner
}

/** Every cell for one capture; tells the table of results. */
export const captureMatrix = async (t: Test, request: MatrixRequest): Promise<void> => {
  const { agents } = await withUsher(t, request)
  const { capture, manner, label = capture } = request
  await t.test('the matrix', async t => {
    const began = performance.now()
    const tried = await tryCells(matrix, agents, manner)
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    const table = [...resultTable(label, tried), ...addressTable(tried)]
    const faults = faultLines(label, tried)
    t.comment([...table, `in ${seconds} s`, ...faults].join('\n'))
    t.equal(faults.length, 0, 'every cell is as it must be')
    const strangers = tried.filter(
      ({ outcome: { seen } }) => seen !== '' && !nodeAddresses.has(seen),
    )
    t.strictSame(
      strangers.map(({ outcome }) => outcome.seen),
      [],
      'backends see none but the node',
    )
  })
}
