import t from 'tap'
import { survivesFaults } from './parts/kubernetes-faults.ts'
import { asksSparingly } from './parts/kubernetes-rates.ts'
import { keepsState } from './parts/kubernetes-state.ts'
import { knowsVersions } from './parts/kubernetes-versions.ts'

keepsState(t)
knowsVersions(t)
survivesFaults(t)
asksSparingly(t)
