// The API server of the tests itself: what is proven with it is worth what it is.
import t from 'tap'
import { faultTests } from './parts/api-faults.ts'
import { listTests } from './parts/api-lists.ts'
import { watchTests } from './parts/api-watches.ts'

listTests(t)
watchTests(t)
faultTests(t)
