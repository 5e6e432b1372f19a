import type { RelayObserver } from '../../relay.ts'
import type { Descriptors } from '../shared/descriptors.ts'
import type { Ports } from './ports.ts'
import type { RelayReport } from './worker-pool.ts'
import type { WorkerHandle } from './worker-handle.ts'

export interface WorkerReportsDeps {
  readonly workers: readonly WorkerHandle[]
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

  /** Whether any worker has stopped accepting for want of descriptors. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  take(worker: WorkerHandle, report: RelayReport): void {
    const { observer, ports } = this.#deps
    switch (report.kind) {
      case 'records':
        worker.recordsLost += report.lost
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
        worker.paused = report.paused
        this.#checkPaused()
        return
      case 'retired':
        ports.retired(worker, report.slot)
    }
  }

  died(worker: WorkerHandle, error: Error): void {
    const text = `worker ${worker.thread} of the relay has died: ${error.message}`
    this.#deps.observer.fault('', new Error(text, { cause: error }))
    worker.paused = false
    this.#checkPaused()
  }

  #checkPaused(): void {
    const { workers, observer, descriptors } = this.#deps
    const paused = workers.some(worker => worker.paused)
    if (paused === this.#isPaused) return
    this.#isPaused = paused
    observer.acceptPaused(paused, descriptors.used, descriptors.limit)
  }
}
