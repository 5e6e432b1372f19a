import { RelayEngine } from '../../src/relay/engine/relay-engine.ts'
import { nodeLayer } from '../../src/relay/sockets/node/node-layer.ts'
import { systemClock } from '../../src/util/clock.ts'
import type { MakeRelay } from './relay-fixture.ts'

export const makePortableRelay: MakeRelay = request =>
  new RelayEngine({
    clock: systemClock,
    workers: 1,
    layer: nodeLayer(request.limits),
    ...request,
  })
