import * as v from 'valibot'
import type { ConnectionAges } from '../../model/traffic.ts'
import { durationText, msOf, type Given } from './option-kinds.ts'

/** From a second to a week. */
const bounds = [1000, 604_800_000] as const
const form = 'from 1s to 168h'

/** How long connections may be there. */
export const ageOptions = {
  idleTimeout: v.pipe(
    durationText(...bounds, form, '1h'),
    v.description(
      'TCP only; `--tcp-idle-timeout` by default. A connection in which no byte has moved for so long is ended, half-closed or not.',
    ),
  ),
  lifetime: v.pipe(
    durationText(...bounds, form, '24h'),
    v.description(
      'TCP only; none by default. How long a connection lasts, less up to a tenth of that, each its own. It is ended at its next quiet moment, at the latest 30 s after.',
    ),
  ),
}

/** Of options without faults; undefined where none is given. */
export const decodeAges = ({
  idleTimeout,
  lifetime,
}: Given<typeof ageOptions>): ConnectionAges | undefined =>
  idleTimeout === undefined && lifetime === undefined
    ? undefined
    : { idleMs: msOf(idleTimeout), lifetimeMs: msOf(lifetime) }
