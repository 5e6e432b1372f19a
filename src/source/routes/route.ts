import type { Protocol } from '../../model/service.ts'

export interface RouteBackend {
  /** A canonical address, or a host name in lower case. */
  readonly host: string
  readonly port: number
}

/** One `--route` of a sidecar. */
export interface Route {
  /** As it was given. */
  readonly text: string
  readonly protocol: Protocol
  readonly listen: { readonly address: string; readonly port: number }
  readonly backends: readonly RouteBackend[]
  /** 0 for none. */
  readonly affinityMs: number
}
