// One process for all of them: each costs a second to start.
import './parts/balancer.ts'
import './parts/resting.ts'
