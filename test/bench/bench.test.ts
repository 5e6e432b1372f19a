// One process for all of them: each costs a second to start.
import './parts/control.ts'
import './parts/smoke.ts'
