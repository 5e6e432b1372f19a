import type { Socket } from 'node:net'
import { type AddressPort, unmapped, withoutZone } from '../../util/ip.ts'
import { proxyHeader, type ProxyVersion } from '../../util/proxy-header.ts'
import { unixPeer } from '../../util/unix-address.ts'
import type { Choice, Front } from '../front.ts'
import type { Preface } from '../preface.ts'

/** A client as it has come: its socket says who it is, or a proxy before Usher. */
export class Arrival {
  readonly socket: Socket
  /** `Clock` time of its accept. */
  readonly at: number
  readonly #isUnix: boolean
  #preface: Pick<Preface, 'headerBytes' | 'addresses' | 'asksTls'> | undefined

  /** `isUnix`: it came by a unix socket. */
  constructor(socket: Socket, at: number, isUnix = false) {
    this.socket = socket
    this.at = at
    this.#isUnix = isUnix
  }

  /** What it has said first is known, and not in the socket any more. */
  takePreface(preface: Pick<Preface, 'headerBytes' | 'addresses' | 'asksTls'>): void {
    this.#preface = preface
  }

  /** To ask a socket is a system call; one that is closed has no address. */
  get source(): AddressPort {
    if (this.#isUnix) return end(unixPeer)
    const { remoteAddress, remotePort } = this.socket
    return this.#preface?.addresses?.source ?? end(remoteAddress, remotePort)
  }

  get dialled(): AddressPort {
    const { localAddress, localPort } = this.socket
    return this.#preface?.addresses?.destination ?? end(localAddress, localPort)
  }

  /** Bytes of the client, without the header of a proxy. */
  get bytesRead(): number {
    return this.socket.bytesRead - (this.#preface?.headerBytes ?? 0)
  }

  /** Its endpoint is to be asked for TLS. */
  get asksTls(): boolean {
    return this.#preface?.asksTls === true
  }

  /** By which an endpoint is told who the client is; undefined where it is not. */
  header(version: ProxyVersion | undefined): Buffer | undefined {
    return version && proxyHeader(version, this.source, this.dialled)
  }

  /** Whether it may connect, as far as lists and source ranges go. */
  isLetIn(front: Front | undefined): boolean {
    if (front === undefined) return false
    // Asking for the address is a system call, which most connections are spared.
    return !front.isSelective || front.letsInFrom(this.source.address)
  }

  /** What it may choose from; undefined when it may not connect. `pool`: of a TLS client. */
  choiceOf(front: Front | undefined, pool?: number): Choice | undefined {
    if (!front?.asksForClient && pool === undefined) return front?.admit('')
    const isProxied = this.#preface?.addresses !== undefined
    const dialled = isProxied ? '' : this.dialled.address
    return front?.admit(this.source.address, dialled, pool)
  }
}

const end = (address = '', port = 0): AddressPort => ({
  address: withoutZone(unmapped(address)),
  port,
})
