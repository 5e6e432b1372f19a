// One process for all of them: each costs a second to start.
import './parts/flow-ages.ts'
import './parts/retry-plan.ts'
import './parts/undelivered.ts'
