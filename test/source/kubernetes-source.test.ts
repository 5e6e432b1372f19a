import t from 'tap'
import { survivesFaults } from './parts/kubernetes-faults.ts'
import { asksSparingly } from './parts/kubernetes-rates.ts'
import { keepsState } from './parts/kubernetes-state.ts'

keepsState(t)
survivesFaults(t)
asksSparingly(t)
