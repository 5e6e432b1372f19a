import type { Clock } from '../../util/clock.ts'
import type { ProxierObserver } from '../proxier.ts'
import type { RunTool } from '../run-tool.ts'
import type { BackendChoice } from '../xtables/choose-backend.ts'

/** What the configuration's section `ipvs` says. */
export interface IpvsOptions {
  /** '' is `rr`; any that the kernel has. */
  readonly scheduler: string
  /** Canonical, of both families: virtual servers on them that no Service wants stay. */
  readonly excludeCidrs: readonly string[]
  /** Answer ARP only for addresses of the device that is asked (MetalLB needs it). */
  readonly strictArp: boolean
  /** Milliseconds of silence after which ipvs forgets a connection; 0 leaves it as it is. */
  readonly tcpTimeoutMs: number
  /** The same after a FIN. */
  readonly tcpFinTimeoutMs: number
  readonly udpTimeoutMs: number
}

export interface IpvsDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly observer: ProxierObserver
  readonly options: IpvsOptions
  /** Of iptables; by default `auto`. */
  readonly backend?: BackendChoice
  /** The text of a file; undefined when there is none. */
  readonly read: (path: string) => Promise<string | undefined>
  /** `net/ipv4/vs/conntrack`; does nothing where it is so already. Rejects with why not. */
  readonly setSysctl: (name: string, value: string) => Promise<void>
}

export const schedulerOf = ({ scheduler }: IpvsOptions): string =>
  scheduler === '' ? 'rr' : scheduler
