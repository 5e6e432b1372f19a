import type { Health } from '../health/health-checker.ts'
import type { Change } from '../model/service.ts'
import type { Problem } from '../model/snapshot.ts'
import type { AddressPort } from '../util/ip.ts'
import { UsherError } from '../util/usher-error.ts'

/** Where a source's changes go. A batch is applied as one: half of it is never seen. */
export interface SourceSink {
  apply(changes: readonly Change[]): void
  /** Called once, after the first complete state went through `apply`. */
  synced(): void
  /** All that is wrong with the source's objects now; replaces the list before. */
  problems(problems: readonly Problem[]): void
}

export interface SourceStatus {
  /** `manifests /etc/usher/services`, `routes`. */
  readonly name: string
  readonly synced: boolean
  /**
   * Epoch milliseconds at which it was last known that what is served is what the source says: by
   * a good read, or a look that found nothing else. Undefined before the first.
   */
  readonly lastGoodAt: number | undefined
  /** Why the newest state could not be taken; '' when it was. */
  readonly error: string
}

/** Where Services come from: manifest files, routes of a sidecar, the Kubernetes API. */
export interface Source {
  /**
   * Reads the first state before anything of this host is touched: rejects (BAD_SOURCE) when it can't be
   * used. Ends by `close`, too.
   */
  prepare?(): Promise<void>
  /** Resolves when the first state has been read; rejects (BAD_SOURCE) when it can't. */
  start(sink: SourceSink): Promise<void>
  /** Reads again now (SIGHUP). */
  reload(): void
  /** What it reads of files at this moment; settles when it has, whatever came of it. */
  reading?(): Promise<void> | undefined
  /**
   * One or all endpoints of a ServicePort (`namespace/name:port`) have failed a moment ago: for a source
   * that can find out where they are now.
   */
  allFailed?(servicePort: string): void
  /**
   * What the source's own checks say of an endpoint (`ip:port`) of a ServicePort
   * (`namespace/name:port`); undefined when it is not checked.
   */
  healthOf?(servicePort: string, endpoint: string): Health | undefined
  /** Whether a ServicePort has no endpoint only because checks of its have yet to find one up. */
  awaitsChecks?(): boolean
  /**
   * Where it reaches its server by connections of this host; the same list while nothing changed,
   * and `apply`, be it of nothing, when something has.
   */
  dials?(): readonly AddressPort[]
  status(): SourceStatus
  close(): Promise<void>
}

/** For a source whose first state can't be read, and waiting would not help. */
export const badSource = (reason: string): UsherError =>
  new UsherError('BAD_SOURCE', reason)
