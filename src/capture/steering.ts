import { isDeepStrictEqual } from 'node:util'
import type { KernelSettings, KernelSync, Proxier } from '../kernel/proxier.ts'
import type { Probe } from '../kernel/probe.ts'
import type {
  Endpoint,
  Problem,
  ServicePort,
  Snapshot,
  Target,
} from '../model/snapshot.ts'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import type { Placement } from './capture.ts'

/**
 * Placed ServicePorts as rules see them: the proxy port is the only endpoint of each VIP. Of what
 * the relay knows of its endpoints nothing is left, so that an endpoint that comes or goes mostly
 * leaves the same object.
 */
export class SteeredPorts {
  readonly #list = new KeyedList<Placement, ServicePort | undefined>(
    ({ listenerId }) => listenerId,
  )

  /** In their order; without those that have no proxy port at all. */
  async of(placements: readonly Placement[]): Promise<readonly ServicePort[]> {
    const all = await this.#list.update(placements, (placement, before) => {
      const now = steeredPort(placement)
      return isDeepStrictEqual(before, now) ? before : now
    })
    return all.filter(one => one !== undefined)
  }
}

/** Without VIPs that have no proxy port; undefined where none has. Thousands of them share what they can. */
export const steeredPort = ({
  servicePort,
  vips: placed,
}: Pick<Placement, 'servicePort' | 'vips'>): ServicePort | undefined => {
  const led = placed.filter(({ binds }) => binds.length > 0)
  if (led.length === 0) return undefined
  return {
    key: servicePort.key,
    name: servicePort.name,
    namespace: servicePort.namespace,
    serviceName: servicePort.serviceName,
    portName: servicePort.portName,
    protocol: servicePort.protocol,
    family: servicePort.family,
    internalTrafficPolicy: servicePort.internalTrafficPolicy,
    externalTrafficPolicy: servicePort.externalTrafficPolicy,
    sourceRanges: servicePort.sourceRanges,
    vips: led.map(({ vip }) => vip),
    steeredTo: led.flatMap(({ binds }) => binds.slice(0, 1)),
    internal: targets[servicePort.internal.verdict],
    external: targets[servicePort.external.verdict],
    externalFromNode: targets[servicePort.externalFromNode.verdict],
    affinityMs: 0,
    endpoints: none,
    reachable: none,
  }
}

const none: readonly Endpoint[] = []

const targets: Readonly<Record<Target['verdict'], Target>> = {
  forward: { verdict: 'forward', endpoints: none },
  reject: { verdict: 'reject', endpoints: none },
  drop: { verdict: 'drop', endpoints: none },
}

/** A way to write rules that steer VIPs to the relay. */
export interface SteeringKind {
  readonly name: 'nftables' | 'iptables'
  /** Whether it works here, found out by really doing it and leaving nothing behind. Never rejects. */
  readonly probe: (family: IpFamily) => Promise<Probe>
  readonly rules: (family: IpFamily) => SteeringRules
}

/**
 * A proxier whose only endpoint is the relay, with what guards the proxy address: no way in but by
 * a VIP, and silence about connections that were never accepted.
 */
export interface SteeringRules extends Proxier {
  /**
   * From now on new connections to all VIPs wait in silence, as clients do when a packet
   * was lost: for the time until another process takes over. Open ones go on. Also by
   * rules that an earlier process has left; does nothing where there are none. A sync leaves it so.
   */
  hold(): Promise<void>
  /** After a sync: ends `hold`. */
  release(): Promise<void>
  /** Takes out everything that leads to the proxy address, also of an earlier process, and then what guards it. */
  remove(): Promise<void>
}

/** What an Usher before this one has left in the family. */
interface Before {
  readonly removeOthers: () => Promise<void>
  readonly forgetWaiting: () => Promise<void>
}

/** A family's steering, which takes over from an earlier process's. */
export class SteeringProxier implements Proxier {
  readonly #rules: SteeringRules
  readonly #before: Before
  #isInstalled = false
  /** Rules and flows of an earlier process may lead clients to ports of then. */
  #isTakingOver = false

  constructor(rules: SteeringRules, before: Before) {
    this.#rules = rules
    this.#before = before
  }

  /** Whether rules of this process may be in the kernel. */
  get isInstalled(): boolean {
    return this.#isInstalled
  }

  /**
   * Before the first proxy port is listened on. A port is another Service's in this process
   * than in the one before: until its own rules are in the kernel, no new client gets to any,
   * neither by a rule of then nor by what the kernel remembers of a flow.
   */
  async takeOver(): Promise<void> {
    await this.#rules.hold()
    this.#isTakingOver = true
    await this.#before.forgetWaiting()
  }

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    this.#isInstalled = true
    const did = await this.#rules.sync(snapshot, settings)
    if (!this.#isTakingOver) return did
    // Clients whom they hold are remembered with the port of then; whom the new ones lead is not to be forgotten.
    await this.#before.removeOthers()
    await this.#before.forgetWaiting()
    await this.#rules.release()
    this.#isTakingOver = false
    return { ...did, work: 'full' }
  }

  forget(): void {
    this.#rules.forget()
  }

  problems(): readonly Problem[] {
    return this.#rules.problems()
  }

  watch(damaged: (what: string) => void): () => void {
    return this.#rules.watch(damaged)
  }

  async hold(): Promise<void> {
    if (!this.#isInstalled) return
    await this.#rules.hold()
    // What comes after it is a new start.
    this.forget()
  }

  async remove(): Promise<void> {
    this.forget()
    if (this.#isInstalled) await this.#rules.remove()
    this.#isInstalled = false
  }

  close(): void {
    this.#rules.close()
  }
}
