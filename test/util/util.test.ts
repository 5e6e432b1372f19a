// One process for all of them: each costs a second to start.
import './parts/cidr.ts'
import './parts/ip.ts'
import './parts/slices.ts'
import './parts/sync-runner.ts'
