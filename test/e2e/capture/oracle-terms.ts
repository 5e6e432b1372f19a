import type { Protocol } from '../../../src/model/service.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { BackendName, HostName } from '../../support/net/addresses.ts'
import type { Result } from '../../support/net/outcome.ts'
import type { TestService } from './services.ts'
import type { VipName } from './vips.ts'

/**
 * Where ways differ by their nature. Userspace with rules can be silent, `local` can't;
 * the kernel modes keep the client's address.
 */
export type Manner = 'rules' | 'local' | 'iptables' | 'ipvs' | 'nftables'

export type Expected =
  | {
      readonly result: 'answer'
      readonly from: readonly BackendName[]
      readonly as: SeenAs
    }
  | { readonly result: Exclude<Result, 'answer'> }

/** Whose address the backend sees: the client's own, or one of the node's. */
export type SeenAs = 'client' | 'node'

/** One connection or datagram of the matrix. */
export interface Cell {
  readonly service: TestService
  readonly vip: VipName
  readonly from: HostName
  readonly family: IpFamily
  readonly protocol: Protocol
}

export const refused: Expected = { result: 'refused' }
export const silence: Expected = { result: 'timeout' }

/** The third is on another node. */
export const isOnNode = (backend: BackendName): boolean => backend !== 'backend-3'

/** By the Service's source ranges, which are for its load balancer's address alone. */
export const isAllowed = ({ service: { allowed }, vip, from }: Cell): boolean => {
  if (vip !== 'load-balancer IP' || allowed === undefined) return true
  if (from === 'outside' || from === 'node') return allowed === from
  return allowed === 'pods'
}

/** A pod that comes back to itself would answer itself without the node's knowing. */
export const isHairpin = ({ service: { backends }, from }: Cell): boolean =>
  backends.length === 1 && backends[0] === from
