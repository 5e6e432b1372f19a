import type { KernelSettings, KernelSync, Proxier } from '../../src/kernel/proxier.ts'
import type { Problem, Snapshot } from '../../src/model/snapshot.ts'

const done: KernelSync = {
  work: 'full',
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

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    this.calls.push('sync')
    this.snapshots.push(snapshot)
    this.settings.push(settings)
    await this.gate
    if (this.broken !== '') throw new Error(this.broken)
    return done
  }

  forget(): void {
    this.calls.push('forget')
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
