import { PortableRelay } from '../../src/relay/portable/portable-relay.ts'
import { systemClock } from '../../src/util/clock.ts'
import type { MakeRelay } from './relay-fixture.ts'

export const makePortableRelay: MakeRelay = request =>
  new PortableRelay({
    clock: systemClock,
    random: Math.random,
    ...request,
  })
