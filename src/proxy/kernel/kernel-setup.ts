import { hostSysctls, type Sysctls, UnrememberedError } from '../../kernel/sysctls.ts'
import type { KernelOptions, ModeName } from '../../mode/mode.ts'
import type { Problem } from '../../model/snapshot.ts'
import type { ClusterFacts, Shared } from '../options.ts'
import { onlineProcessors, type WantedSysctl, wantedSysctls } from './wanted-sysctls.ts'

/** What has failed is tried with every second sync, then with every fourth, and so on to this. */
const rarestTry = 64

export interface KernelSetupDeps {
  readonly sysctls: Sysctls
  readonly wanted: () => readonly WantedSysctl[]
  /** Called with what can't be set, once for each. */
  readonly failed: (name: string, value: string, reason: string) => void
}

/**
 * The settings of the kernel's that a mode asks for. What can't be set is reported and done
 * without: in a container's namespace some can't be written, and Services work all the same.
 */
export class KernelSetup {
  readonly #deps: KernelSetupDeps
  /** By name, the value that it has, or was larger than. */
  readonly #done = new Map<string, string>()
  /** Syncs so far. */
  #syncs = 0
  /** How often each failed. */
  readonly #failures = new Map<string, number>()
  /** Those not set because they could not be taken back later, with the reason. */
  readonly #refused = new Map<string, string>()

  constructor(deps: KernelSetupDeps) {
    this.#deps = deps
  }

  /** Sets what is not set yet, but for what rules have to guard. Never rejects. */
  prepare(): Promise<void> {
    this.#syncs += 1
    return this.#setAll(
      this.#deps.wanted().filter(({ guarded }) => guarded === undefined),
    )
  }

  /**
   * Sets what opens the node now that the rules stand that guard it. Without them, or where
   * it is not wanted, takes back what Usher, this process or one before, has set of it.
   * Never rejects.
   */
  async guard(stands: boolean): Promise<void> {
    const all = this.#deps.wanted().filter(({ guarded }) => guarded !== undefined)
    const open = all.filter(({ guarded }) => stands && guarded === 'open')
    await this.#takeBack(all.filter(one => !open.includes(one)))
    await this.#setAll(open)
  }

  /**
   * Puts back what Usher, this process or one before, has set; but for limits, below which there may be
   * too much by now for others: those are for `usher cleanup`. Never rejects.
   */
  undo(): Promise<void> {
    return this.#takeBack(this.#deps.wanted().filter(({ atLeast = false }) => !atLeast))
  }

  /** What can't be set without a danger that would outlast this process. */
  refused(): readonly Problem[] {
    return Array.from(this.#refused, ([object, message]) => ({
      object: `setting ${object}`,
      field: '',
      message,
    }))
  }

  async #takeBack(all: readonly WantedSysctl[]): Promise<void> {
    const { sysctls } = this.#deps
    for (const one of all)
      try {
        for (const known of await sysctls.remembered())
          if (known.name === one.name) await sysctls.putBack(known)
        this.#done.delete(one.name)
      } catch (error) {
        const reason = (error as Error).message
        this.#deps.failed(one.name, one.value, `it can't be taken back: ${reason}`)
      }
  }

  async #setAll(all: readonly WantedSysctl[]): Promise<void> {
    for (const wanted of all) {
      if (this.#done.get(wanted.name) === wanted.value) continue
      if (wanted.needs !== undefined && !this.#done.has(wanted.needs)) continue
      if (!this.#isTimeFor(wanted)) continue
      try {
        await applySysctl(this.#deps.sysctls, wanted)
        this.#done.set(wanted.name, wanted.value)
        this.#refused.delete(wanted.name)
        this.#failures.delete(wanted.name)
      } catch (error) {
        const { message } = error as Error
        if (error instanceof UnrememberedError) this.#refused.set(wanted.name, message)
        this.#fail(wanted, message)
      }
    }
  }

  /** In a container whose /proc/sys is read-only nothing can be set, ever. */
  #isTimeFor({ name, guarded }: WantedSysctl): boolean {
    const failures = this.#failures.get(name) ?? 0
    if (failures < 2 || guarded !== undefined) return true
    return this.#syncs % Math.min(2 ** (failures - 1), rarestTry) === 0
  }

  /** For what a mode sets by itself. Rejects with the reason. */
  async set(name: string, value: string): Promise<void> {
    await this.#deps.sysctls.set(name, value)
    this.#done.set(name, value)
  }

  /** Whether this process wants it as it is: no leftover. */
  has(name: string): boolean {
    return this.#done.has(name)
  }

  /** Reported the second time: conntrack's come with the first rule that needs conntrack. */
  #fail({ name, value }: WantedSysctl, reason: string): void {
    const failures = (this.#failures.get(name) ?? 0) + 1
    this.#failures.set(name, failures)
    if (failures === 2) this.#deps.failed(name, value, reason)
  }
}

/** That of a mode, on this host. */
export const kernelSetup = (
  mode: ModeName,
  {
    options,
    facts,
    log,
    sysctls = hostSysctls(),
  }: {
    readonly options: KernelOptions
    readonly facts: Partial<Pick<ClusterFacts, 'nodePortCidrsOfAnyNode'>>
    readonly log: Shared['log']
    readonly sysctls?: Sysctls
  },
): KernelSetup => {
  const cores = onlineProcessors()
  // Userspace does without: it only shares the kernel's table of connections.
  const level = mode === 'userspace' ? 'info' : 'warn'
  return new KernelSetup({
    sysctls,
    wanted: () =>
      wantedSysctls(options, {
        mode,
        cores,
        nodePortCidrs: facts.nodePortCidrsOfAnyNode,
      }),
    failed: (sysctl, value, why) =>
      log[level]({ sysctl, value, why }, 'a kernel setting could not be changed'),
  })
}

/** False when a larger number was there, and stays. Rejects with the reason. */
export const applySysctl = async (
  sysctls: Sysctls,
  { name, value, atLeast, guarded }: WantedSysctl,
): Promise<boolean> => {
  if (atLeast && Number(await sysctls.read(name)) > Number(value)) return false
  await sysctls.set(name, value, { mustBeRemembered: guarded !== undefined })
  return true
}
