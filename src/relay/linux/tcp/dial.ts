import type { Attempt } from '../../relay.ts'
import type { RetryPlan } from '../../retry-plan.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'

/** One attempt of a dial that needs more than one. */
export interface Try {
  readonly connection: number
  readonly backend: WorkerBackend
  readonly startedAt: number
  readonly record: Attempt
  readonly fd: number
  /** Its number among the extra attempts; -1 for the first, which is the backend's side. */
  readonly index: number
}

/** The state of a dial whose first attempt has failed or takes long. */
export class Dial {
  readonly plan: RetryPlan<WorkerBackend>
  readonly attempts: Attempt[] = []
  /** Attempts under way. */
  readonly tries: Try[] = []
  /** Descriptors taken beyond the one that the connection has paid for. */
  extraFds = 0
  /** Attempts that have failed in a row before they were under way. */
  depth = 0
  lastError = ''

  constructor(plan: RetryPlan<WorkerBackend>) {
    this.plan = plan
  }

  /** The first attempt, while it is under way. */
  get first(): Try | undefined {
    return this.tries.find(({ index }) => index === -1)
  }
}
