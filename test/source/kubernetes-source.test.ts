import './parts/kubernetes-state.ts'
import './parts/kubernetes-faults.ts'
import './parts/kubernetes-rates.ts'
