import type { ModeName } from '../mode/mode.ts'
import { labelText, type OwnFamily } from './exposition.ts'

/** Which mode runs, and how often another had to take its place. */
export const modeFamilies = (mode: ModeName, fallBacks: number): readonly OwnFamily[] => [
  {
    name: 'usher_proxy_mode',
    type: 'gauge',
    help: 'Always 1; the label is the mode that runs.',
    samples: () => [{ suffix: '', labels: labelText({ mode }), value: 1 }],
  },
  {
    name: 'usher_mode_fallbacks_total',
    type: 'counter',
    help: 'Times the mode that ran could not be had any more, and another took its place.',
    samples: () => [{ suffix: '', labels: '', value: fallBacks }],
  },
]
