import type { Sysctls } from '../../kernel/sysctls.ts'
import type { WantedSysctl } from './wanted-sysctls.ts'

export interface KernelSetupDeps {
  readonly sysctls: Sysctls
  readonly wanted: () => readonly WantedSysctl[]
  /** Told of what can't be set, once for each. */
  readonly failed: (name: string, value: string, why: string) => void
}

/**
 * The settings of the kernel's that a mode asks for. What can't be had is told and done
 * without: in a container's namespace some can't be written, and Services work all the same.
 */
export class KernelSetup {
  readonly #deps: KernelSetupDeps
  /** By name, the value that it has, or was larger than. */
  readonly #done = new Map<string, string>()
  /** Those that were larger already. */
  readonly #larger = new Set<string>()
  /** How often each failed. */
  readonly #failures = new Map<string, number>()

  constructor(deps: KernelSetupDeps) {
    this.#deps = deps
  }

  /** Sets what is not set yet, but for what rules have to guard. Never rejects. */
  prepare(): Promise<void> {
    return this.#setAll(this.#deps.wanted().filter(({ guarded }) => guarded !== true))
  }

  /**
   * Sets what opens the node now that the rules stand that guard it, or takes back what
   * Usher, this process or one before, has set of it. Never rejects.
   */
  async guard(stands: boolean): Promise<void> {
    const wanted = this.#deps.wanted().filter(({ guarded }) => guarded === true)
    if (stands) return this.#setAll(wanted)
    const { sysctls } = this.#deps
    for (const one of wanted)
      try {
        for (const known of await sysctls.remembered())
          if (known.name === one.name) await sysctls.putBack(known)
        this.#done.delete(one.name)
      } catch (error) {
        const why = (error as Error).message
        this.#deps.failed(one.name, one.value, `it can't be taken back: ${why}`)
      }
  }

  async #setAll(all: readonly WantedSysctl[]): Promise<void> {
    for (const wanted of all) {
      if (this.#done.get(wanted.name) === wanted.value) continue
      if (wanted.needs !== undefined && !this.#isAsWanted(wanted.needs)) continue
      try {
        const isSet = await applySysctl(this.#deps.sysctls, wanted)
        if (!isSet) this.#larger.add(wanted.name)
        this.#done.set(wanted.name, wanted.value)
      } catch (error) {
        this.#fail(wanted, (error as Error).message)
      }
    }
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

  #isAsWanted(name: string): boolean {
    return this.#done.has(name) && !this.#larger.has(name)
  }

  /** Told the second time: conntrack's come with the first rule that needs conntrack. */
  #fail({ name, value }: WantedSysctl, why: string): void {
    const failures = (this.#failures.get(name) ?? 0) + 1
    this.#failures.set(name, failures)
    if (failures === 2) this.#deps.failed(name, value, why)
  }
}

/** False when a larger number was there, and stays. Rejects with the reason. */
export const applySysctl = async (
  sysctls: Sysctls,
  { name, value, atLeast }: WantedSysctl,
): Promise<boolean> => {
  if (atLeast && Number(await sysctls.read(name)) > Number(value)) return false
  await sysctls.set(name, value)
  return true
}
