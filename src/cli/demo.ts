import { basename, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { OptionsOf } from '../config/options.ts'
import { answersOn } from '../demo/demo-source.ts'
import { type DemoProxy, runDemo } from '../demo/run-demo.ts'
import { createScreen } from '../demo/screen.ts'
import { createLog } from '../observe/log.ts'
import { startProxy } from '../proxy/start-proxy.ts'
import { manifestSource } from '../source/manifests/manifest-source.ts'
import type { Source } from '../source/source.ts'
import { systemClock } from '../util/clock.ts'
import { shippedFile } from '../util/own-files.ts'
import type { Io } from './io.ts'
import { relayLimits } from './relay-limits.ts'
import { version } from './version.ts'

const manifest = fileURLToPath(shippedFile('deploy/examples/demo.yaml'))

/** How to call this Usher again: by name if it was called so, else as a file. */
const usher = (): string => {
  const file = process.argv[1] ?? 'usher'
  return basename(file) === 'usher' ? 'usher' : `node ${relative(process.cwd(), file)}`
}

/** The first signal ends the demo in good order, as a reader that goes does; the second one at once. */
const untilSignal = (
  gone: AbortSignal,
): { readonly signal: AbortSignal; release: () => void } => {
  const stop = new AbortController()
  const onSignal = (): void => {
    // Backends end by themselves when their parent is gone. 130: ended by Ctrl-C.
    if (stop.signal.aborted) process.exit(130)
    stop.abort()
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const release = (): void => {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
  return { signal: AbortSignal.any([stop.signal, gone]), release }
}

export const exampleManifest = (path: string): Source => manifestSource({ paths: [path] })

/**
 * Starts the real proxy for the demo, as `usher run` would. With `proxyPortsOnly` it
 * listens on no VIP, but on ports of 127.0.0.1.
 */
export const proxyOver =
  (options: OptionsOf<'demo'>) =>
  async (source: Source, proxyPortsOnly: boolean): Promise<DemoProxy> => {
    const proxy = await startProxy({
      source,
      log: await createLog({ level: options.logLevel, format: options.logFormat }),
      options: {
        version: version(),
        capture: proxyPortsOnly ? 'none' : 'listen',
        bindAddress: proxyPortsOnly ? '127.0.0.1' : options.bindAddress,
        proxyPortRange: options.proxyPortRange,
        metricsBindAddress: options.metricsBindAddress,
        healthzBindAddress: options.healthzBindAddress,
        periods: () => ({ syncPeriod: 30_000, minSyncPeriod: 1000 }),
        limits: relayLimits(options),
        relay: options.relay,
        // Turns are taken per worker, and the demo shows turns.
        relayWorkers: 1,
      },
    })
    await proxy.ready
    return proxy
  }

/** `usher demo`; resolves to the exit code when everything it started has ended. */
export const demo = async (options: OptionsOf<'demo'>, io: Io): Promise<number> => {
  const { signal, release } = untilSignal(io.gone)
  try {
    return await runDemo({
      manifest: () => exampleManifest(manifest),
      startProxy: proxyOver(options),
      once: options.once,
      allOfLoopback: await answersOn('127.96.0.10'),
      screen: createScreen(io.out, io.colour),
      clock: systemClock,
      stop: signal,
      usher: usher(),
    })
  } finally {
    release()
  }
}
