// One process for all of them: each costs a second to start.
import './parts/targets/backends.ts'
import './parts/targets/failing.ts'
import './parts/targets/serving.ts'
