import type { Problem } from '../../model/snapshot.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import type { Probe } from '../probe.ts'
import { UntilDone, type UntilDoneDeps } from './until-done.ts'

export interface FamiliesDeps extends UntilDoneDeps {
  /** As in `mode nftables`: the object of problems. */
  readonly object: string
  /** Why the others don't work, as far as is known. */
  readonly unusable: ReadonlyMap<IpFamily, string>
  /** Never rejects. */
  readonly probe: (family: IpFamily) => Promise<Probe>
}

/**
 * Which families work here. One that does not, and that Services want, is a problem, and probed
 * again until it does: IPv6 may come up after Usher.
 */
export class Families {
  readonly #deps: FamiliesDeps
  readonly #unusable: Map<IpFamily, string>
  readonly #retries = new Map<IpFamily, UntilDone>()

  constructor(deps: FamiliesDeps) {
    this.#deps = deps
    this.#unusable = new Map(deps.unusable)
  }

  get problems(): readonly Problem[] {
    return [...this.#retries.values()].flatMap(({ problems }) => problems)
  }

  /** '' when it works. */
  problemOf(family: IpFamily): string {
    const problem = this.#unusable.get(family)
    return problem === undefined
      ? ''
      : `${this.#deps.object} does not work for ${family}: ${problem}`
  }

  /** It worked until now. */
  lost(family: IpFamily, problem: string): void {
    this.#unusable.set(family, problem)
  }

  /** Those with Services: nobody misses the others. Gives the problem of each now, as `problemOf`. */
  want(families: ReadonlySet<IpFamily>): Readonly<Record<IpFamily, string>> {
    for (const family of ipFamilies) {
      const isMissed = families.has(family) && this.problemOf(family) !== ''
      if (!isMissed) this.#end(family)
      else if (!this.#retries.has(family)) {
        const retry = new UntilDone(this.#deps, () => this.#probe(family))
        this.#retries.set(family, retry)
        retry.later(this.#problem(family))
      }
    }
    return { IPv4: this.problemOf('IPv4'), IPv6: this.problemOf('IPv6') }
  }

  stop(): void {
    for (const family of ipFamilies) this.#end(family)
  }

  #end(family: IpFamily): void {
    void this.#retries.get(family)?.stop()
    this.#retries.delete(family)
  }

  async #probe(family: IpFamily): Promise<readonly Problem[]> {
    const { usable, detail } = await this.#deps.probe(family)
    if (usable) this.#unusable.delete(family)
    else this.#unusable.set(family, detail)
    return this.#problem(family)
  }

  #problem(family: IpFamily): readonly Problem[] {
    const [{ object }, message] = [this.#deps, this.problemOf(family)]
    return message === '' ? [] : [{ object, field: family, message }]
  }
}
