import t from 'tap'
import { supervisedDeathTests } from './parts/supervised-death.ts'
import { supervisedParentTests } from './parts/supervised-parent-tests.ts'
import { supervisedPartTests } from './parts/supervised-pieces.ts'
import { supervisedServingTests } from './parts/supervised-serving.ts'

supervisedPartTests(t)
supervisedServingTests(t)
supervisedDeathTests(t)
supervisedParentTests(t)
