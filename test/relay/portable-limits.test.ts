// A process of its own: long.
import t from 'tap'
import { tcpLimitsContract } from './contract/tcp-limits.ts'

tcpLimitsContract(t, {
  file: new URL('../support/portable-relay.ts', import.meta.url),
  exported: 'makePortableRelay',
})
