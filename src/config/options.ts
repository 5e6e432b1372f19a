import { bench } from './options/bench.ts'
import { cluster } from './options/cluster.ts'
import { conntrack } from './options/conntrack.ts'
import { kernelModes } from './options/kernel-modes.ts'
import { kubeProxy } from './options/kube-proxy.ts'
import { listening } from './options/listening.ts'
import { logging } from './options/logging.ts'
import { otherSystems } from './options/other-systems.ts'
import { pace } from './options/pace.ts'
import { relay } from './options/relay.ts'
import { traffic } from './options/traffic.ts'
import { what } from './options/what.ts'
import type { Row } from './row.ts'

/**
 * The one table of options, rows of a group together. A flag's camelCase spelling is its
 * name in `OptionsOf`.
 */
export const table = {
  ...what,
  ...bench,
  ...cluster,
  ...listening,
  ...relay,
  ...traffic,
  ...pace,
  ...logging,
  ...kubeProxy,
  ...kernelModes,
  ...conntrack,
  ...otherSystems,
} as const satisfies Readonly<Record<string, Row>>
