import { readLogDestination } from '../../model/access-log.ts'
import type { Problem, ServicePort, Snapshot } from '../../model/snapshot.ts'
import type { AccessBatch } from '../../relay/relay.ts'
import type { Clock } from '../../util/clock.ts'
import { type Log, standardOutput } from '../log.ts'
import type { LogOutput } from '../log-output.ts'
import { FileSink, type LineSink, type ReportTrouble, SyslogSink } from './sink.ts'

export interface AccessLogDeps {
  readonly log: Log
  readonly clock: Clock
  /** Default: the one that the log has, too. */
  readonly stdout?: () => Pick<LogOutput, 'write'>
}

/** Milliseconds for what waits to be written at the end. */
const endMs = 1000
/** Milliseconds between two lines of the log about lines that did not come here. */
const lostEveryMs = 60_000

/**
 * Writes what relays report of connections that have ended, for routes that have an access log, each
 * to its destination, and counts what is lost on the way. Two routes with one destination share it.
 */
export class AccessLog {
  /** Lines that were lost, by ServicePort. */
  readonly dropped = new Map<string, number>()
  readonly #deps: AccessLogDeps
  readonly #sinks = new Map<string, LineSink>()
  readonly #troubles = new Map<string, string>()
  #lostReportedAt = -Infinity

  constructor(deps: AccessLogDeps) {
    this.#deps = deps
  }

  /** From now on these are wanted: their destinations are opened, and those of others closed. */
  want(snapshots: readonly Snapshot[]): void {
    const wanted = new Set<string>()
    for (const { servicePorts } of snapshots)
      for (const port of servicePorts.values()) this.#wantOne(port, wanted)
    for (const [to, sink] of this.#sinks) {
      if (wanted.has(to)) continue
      this.#sinks.delete(to)
      this.#troubles.delete(to)
      void sink.end(endMs)
    }
  }

  lines({ listener, to, text, lines, lost }: AccessBatch): void {
    if (lost > 0) this.#lostBefore(listener, lost)
    if (lines === 0) return
    // The last connections of a route may end when it is gone.
    const sink = this.#sinks.get(to) ?? this.#open(to)
    sink?.write(text, lines, count => this.#lost(listener, count))
  }

  /** What can't be written now. */
  problems(): readonly Problem[] {
    return Array.from(this.#troubles, ([to, why]) => ({
      object: 'access log',
      field: to,
      message: why,
    }))
  }

  /** Files may have been rotated. */
  reopen(): void {
    for (const sink of this.#sinks.values()) sink.reopen()
  }

  /** Writes what waits, for a second at most. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#sinks.values(), sink => sink.end(endMs)))
    this.#sinks.clear()
  }

  #wantOne({ name, accessLog }: ServicePort, wanted: Set<string>): void {
    if (accessLog === undefined) return
    wanted.add(accessLog.to)
    if (!this.dropped.has(name)) this.dropped.set(name, 0)
    if (!this.#sinks.has(accessLog.to)) this.#open(accessLog.to)
  }

  #open(to: string): LineSink | undefined {
    const sink: LineSink | undefined = this.#sinkOf(to, reason => {
      // While it ends nobody wants it any more.
      if (this.#sinks.get(to) === sink) this.#troubled(to, reason)
    })
    if (sink !== undefined) this.#sinks.set(to, sink)
    return sink
  }

  #sinkOf(to: string, report: ReportTrouble): LineSink | undefined {
    const { clock, stdout = standardOutput } = this.#deps
    const place = readLogDestination(to)
    if (place === undefined) return undefined
    if (place.kind === 'stdout') return stdoutSink(stdout())
    return place.kind === 'file'
      ? new FileSink(place.path, clock, report)
      : new SyslogSink(place.address, place.port, clock, report)
  }

  #troubled(to: string, why: string): void {
    const { log } = this.#deps
    if (why === '') {
      this.#troubles.delete(to)
      log.info({ to }, 'the access log can be written again')
      return
    }
    this.#troubles.set(to, why)
    log.warn(
      { to, why },
      "the access log can't be written: connections continue, lines are buffered",
    )
  }

  #lost(listener: string, lines: number): void {
    this.dropped.set(listener, (this.dropped.get(listener) ?? 0) + lines)
  }

  /** With a worker that has died, or on their way from one. */
  #lostBefore(servicePort: string, lines: number): void {
    const { log, clock } = this.#deps
    this.#lost(servicePort, lines)
    if (clock.now() - this.#lostReportedAt < lostEveryMs) return
    this.#lostReportedAt = clock.now()
    log.warn({ servicePort, lines }, 'access log lines were lost in the relay')
  }
}

/** Its own log is there too, and what can't be written is reported by that. */
const stdoutSink = (output: Pick<LogOutput, 'write'>): LineSink => ({
  write: (text, lines, lost) => output.write(text, () => lost(lines)),
  reopen: () => {},
  end: async () => {},
})
