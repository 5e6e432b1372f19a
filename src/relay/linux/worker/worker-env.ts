import type { EndedConnections } from '../../ended-connections.ts'
import type { NodeClientSet } from '../../node-clients.ts'
import type { RelayLimits } from '../../relay.ts'
import type { Outbox } from '../../remote/outbox.ts'
import type { EventLoop } from '../event-loop.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'
import type { RestPages } from '../shared/rest-pages.ts'
import type { StatsPages } from '../shared/stats-pages.ts'
import type { WorkerSigns } from '../shared/worker-signs.ts'
import type { FdAccount } from './fd-account.ts'
import type { WorkerQueues } from './worker-queues.ts'

/** What the listeners of a worker share. */
export interface WorkerEnv {
  /** Which of the workers it is, from 1 on. */
  readonly thread: number
  readonly calls: Syscalls
  readonly loop: EventLoop
  readonly random: () => number
  readonly limits: RelayLimits
  readonly fds: FdAccount
  readonly queues: WorkerQueues
  readonly listenerPages: StatsPages
  readonly endpointPages: StatsPages
  /** All workers' own. */
  readonly restPages: RestPages
  readonly signs: WorkerSigns
  readonly nodeClients: NodeClientSet
  readonly observer: Pick<
    Outbox,
    'wants' | 'connectionClosed' | 'accessLines' | 'lastError' | 'allFailed' | 'fault'
  >
  /** For who looks at connections as they end. */
  readonly endedConnections: EndedConnections
  /** Whether a UDP listener of this relay is bound to this address and port. */
  isOwn(address: string, port: number): boolean
}
