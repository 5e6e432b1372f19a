import type { Cause } from '../../cause.ts'
import type { NodeClientSet } from '../../node-clients.ts'
import type { ConnectionRecord, RelayLimits } from '../../relay.ts'
import type { EventLoop } from '../event-loop.ts'
import type { Syscalls } from '../syscalls.ts'
import type { StatsPages } from '../shared/stats-pages.ts'
import type { WorkerSigns } from '../shared/worker-signs.ts'
import type { FdAccount } from './fd-account.ts'

/** What the listeners of a worker share. */
export interface WorkerEnv {
  readonly calls: Syscalls
  readonly loop: EventLoop
  readonly random: () => number
  readonly limits: RelayLimits
  readonly fds: FdAccount
  readonly listenerPages: StatsPages
  readonly endpointPages: StatsPages
  readonly signs: WorkerSigns
  readonly nodeClients: NodeClientSet
  readonly teller: Teller
  /** Whether a UDP listener of this relay is bound to this address and port. */
  isOwn(address: string, port: number): boolean
}

/** What a worker tells the main thread. */
export interface Teller {
  /** Whether `connectionClosed` wants the record of a connection that ended so. */
  wants(cause: Cause): boolean
  connectionClosed(record: ConnectionRecord): void
  /** For the status; '' when nothing is wrong any more. */
  lastError(slot: number, text: string): void
  fault(listener: string, error: unknown): void
}
