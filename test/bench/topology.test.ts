// One process for all of them: each costs a second to start.
import './parts/topology-choice.ts'
import './parts/topology-lanes.ts'
import './parts/topology-plain.ts'
import './parts/topology-install.ts'
