import type { KernelSettings, KernelSync, Proxier } from '../../src/kernel/proxier.ts'
import type { Problem, Snapshot } from '../../src/model/snapshot.ts'

const done: Pick<KernelSync, 'rules'> = {
  rules: { filter: { total: 2, written: 1 }, nat: { total: 4, written: 3 } },
}

/** A proxier that writes nothing, and breaks when it is told to. */
export class FakeProxier implements Proxier {
  /** What was asked of it, in order. */
  readonly calls: string[] = []
  readonly snapshots: Snapshot[] = []
  readonly settings: KernelSettings[] = []
  /** Syncs fail with this; '' for not at all. */
  broken = ''
  /** Syncs wait for it. */
  gate: Promise<void> = Promise.resolve()
  damaged: (what: string) => void = () => {}
  #isKnown = false

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    this.calls.push('sync')
    this.snapshots.push(snapshot)
    this.settings.push(settings)
    await this.gate
    const work = this.#isKnown ? 'partial' : 'full'
    this.#isKnown = this.broken === ''
    if (this.broken !== '') throw new Error(this.broken)
    return { ...done, work }
  }

  forget(): void {
    this.calls.push('forget')
    this.#isKnown = false
  }

  problems(): readonly Problem[] {
    return []
  }

  watch(damaged: (what: string) => void): () => void {
    this.calls.push('watch')
    this.damaged = damaged
    return () => this.calls.push('end watch')
  }

  close(): void {
    this.calls.push('close')
  }
}
