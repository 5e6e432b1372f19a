import { type Cidr, cidrContains, parseCidr } from '../util/cidr.ts'
import type { NodeClients } from './relay.ts'

/** Looks up which clients are on this node. */
export class NodeClientSet {
  #addresses: ReadonlySet<string> = new Set()
  #cidrs: readonly Cidr[] = []

  set({ addresses, cidrs }: NodeClients): void {
    this.#addresses = new Set(addresses)
    this.#cidrs = cidrs.flatMap(text => parseCidr(text) ?? [])
  }

  has(address: string): boolean {
    return (
      this.#addresses.has(address) ||
      this.#cidrs.some(cidr => cidrContains(cidr, address))
    )
  }
}

/** Until it is known who they are. */
export const noNodeClients: NodeClients = { addresses: [], cidrs: [] }
