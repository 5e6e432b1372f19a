// One process for all of them: each costs a second to start.
import './parts/fronts.ts'
import './parts/loops.ts'
import './parts/reconciler.ts'
import './parts/userspace.ts'
