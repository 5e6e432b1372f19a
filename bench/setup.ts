import type { Io } from '../src/cli/io.ts'
import type { OptionsOf } from '../src/config/options.ts'
import type { Topology } from './topology/topology.ts'

/** What `usher bench` was called with. */
export type BenchOptions = OptionsOf<'bench'>

export type { Io }

/** What is to be measured, where, and where to print. */
export interface Setup {
  readonly options: BenchOptions
  readonly io: Io
  readonly topology: Topology
  /** For configurations and sockets; its maker removes it. */
  readonly workDirectory: string
  /** Why it is not measured in namespaces; '' when it is. */
  readonly loopbackReason: string
}
