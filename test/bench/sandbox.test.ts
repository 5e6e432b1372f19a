// Apart from the topology, because both take long.
import './parts/topology-ends.ts'
