import type { Log } from '../observe/log.ts'
import type { KubernetesObserver } from '../source/kubernetes/observer.ts'

const timeText = (epochMs: number | undefined): string | undefined =>
  epochMs === undefined ? undefined : new Date(epochMs).toISOString()

/**
 * Writes what happens between Usher and the API server. `isSynced`: there is a state that is
 * served while the server is away.
 */
export const kubernetesLog = (log: Log, isSynced: () => boolean): KubernetesObserver => ({
  connected: resource => log.info({ resource }, 'watching'),
  lost: (resource, why, lastWordAt) =>
    log.warn(
      { resource, why, lastWord: timeText(lastWordAt) },
      isSynced()
        ? 'cannot watch the API server; the last state is served meanwhile'
        : 'cannot read from the API server; trying again',
    ),
  relisted: (resource, why) => log.info({ resource, why }, 'read anew'),
  fellBack: (resource, how) => log.info({ resource, how }, 'fell back'),
})
