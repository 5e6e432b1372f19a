import { RelayEngine } from '../../src/relay/engine/relay-engine.ts'
import { linuxLayer } from '../../src/relay/sockets/linux/linux-layer.ts'
import { systemClock } from '../../src/util/clock.ts'
import { programFile } from '../../src/util/own-files.ts'
import type { MakeRelay } from '../support/relay-fixture.ts'

/** Forced collections in the middle of traffic are part of the soak. */
const collecting = new URL('./collecting-worker.mjs', import.meta.url)

const linuxRelay =
  (workers: number, file: URL): MakeRelay =>
  request =>
    new RelayEngine({
      clock: systemClock,
      workers,
      layer: linuxLayer(request.limits, { file, execArgv: [] }),
      ...request,
    })

// Each for a relay in a process of its own, which finds it by its name.
export const soakedWith1 = linuxRelay(1, collecting)
export const soakedWith2 = linuxRelay(2, collecting)
export const soakedWith4 = linuxRelay(4, collecting)
/** Errors that were injected may be told; any other fault ends the process. */
export const faultyRelay: MakeRelay = request =>
  linuxRelay(
    1,
    programFile('relay-worker'),
  )({
    ...request,
    observer: {
      ...request.observer,
      fault: (listener, error) => {
        if (!/E(?:INTR|NOMEM|NOBUFS|MFILE|CONNABORTED)\b/.test(error.message))
          request.observer.fault(listener, error)
      },
    },
  })
