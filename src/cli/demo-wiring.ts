import type { OptionsOf } from '../config/options.ts'
import type { DemoProxy } from '../demo/run-demo.ts'
import { createLog } from '../observe/log.ts'
import { startProxy } from '../proxy/start-proxy.ts'
import { manifestSource } from '../source/manifests/manifest-source.ts'
import type { Source } from '../source/source.ts'
import { relayLimits } from './relay-limits.ts'
import { version } from './version.ts'

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
        periods: () => ({ syncPeriod: 30_000, minSyncPeriod: 0 }),
        limits: relayLimits(options),
        relay: options.relay,
        // Turns are taken per worker, and the demo shows turns.
        relayWorkers: 1,
      },
    })
    await proxy.ready
    return proxy
  }
