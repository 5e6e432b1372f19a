// One process for all of them: each costs a second to start.
import './parts/fallback-lock.ts'
import './parts/fallback-mode.ts'
import './parts/fronts.ts'
import './parts/kernel-mode.ts'
import './parts/loops.ts'
import './parts/reconciler.ts'
import './parts/userspace.ts'
