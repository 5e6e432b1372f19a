import type { RelayObserver } from '../../relay.ts'
import type { Descriptors } from '../shared/descriptors.ts'
import type { Ports } from './ports.ts'
import type { RelayReport } from './worker-pool.ts'
import type { WorkerSeat } from './worker-seat.ts'

export interface WorkerReportsDeps {
  readonly seats: readonly WorkerSeat[]
  readonly observer: RelayObserver
  readonly ports: Ports
  readonly descriptors: Pick<Descriptors, 'used' | 'limit'>
}

/** What workers say, passed on to whom it concerns. */
export class WorkerReports {
  readonly #deps: WorkerReportsDeps
  #isPaused = false

  constructor(deps: WorkerReportsDeps) {
    this.#deps = deps
  }

  /** Whether any worker accepts nobody for want of descriptors. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  take(seat: WorkerSeat, report: RelayReport): void {
    const { observer, ports } = this.#deps
    switch (report.kind) {
      case 'records':
        seat.recordsLost += report.lost
        for (const record of report.records) observer.connectionClosed(record)
        return
      case 'last-error': {
        const port = ports.at(report.slot)
        if (port !== undefined) port.lastError = report.text
        return
      }
      case 'fault':
        observer.fault(report.listener, new Error(report.text))
        return
      case 'accept-paused':
        seat.paused = report.paused
        this.#checkPaused()
        return
      case 'retired':
        ports.retired(seat, report.slot)
    }
  }

  died(seat: WorkerSeat, error: Error): void {
    const text = `worker ${seat.thread} of the relay has died: ${error.message}`
    this.#deps.observer.fault('', new Error(text, { cause: error }))
    seat.paused = false
    this.#checkPaused()
  }

  #checkPaused(): void {
    const { seats, observer, descriptors } = this.#deps
    const paused = seats.some(seat => seat.paused)
    if (paused === this.#isPaused) return
    this.#isPaused = paused
    observer.acceptPaused(paused, descriptors.used, descriptors.limit)
  }
}
