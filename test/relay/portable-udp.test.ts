// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { udpContract } from './contract/udp.ts'
import { udpLimitsContract } from './contract/udp-limits.ts'

udpContract(t, makePortableRelay)

const skip = process.platform === 'win32' && 'Windows has no limit on descriptors'
t.test('limits', { skip }, async t =>
  udpLimitsContract(t, {
    file: new URL('../support/portable-relay.ts', import.meta.url),
    exported: 'makePortableRelay',
  }),
)
