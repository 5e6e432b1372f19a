// A process of its own: long.
import t from 'tap'
import { reloadContract } from './contract/reload.ts'

reloadContract(t, {
  file: new URL('../support/portable-relay.ts', import.meta.url),
  exported: 'makePortableRelay',
})
