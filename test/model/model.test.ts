// One process for all of them: each costs a second to start.
import './parts/slice-merge.ts'
import './parts/topology.ts'
import './parts/vip-claims.ts'
