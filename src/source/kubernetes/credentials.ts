import type { Agent, OutgoingHttpHeaders } from 'node:http'

export interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** The name that the server's certificate must carry, instead of the URL's. */
  readonly servername?: string
  /** False: any certificate will do. */
  readonly rejectUnauthorized?: boolean
}

/** What a request needs to be let in. */
export interface Access {
  readonly headers: OutgoingHttpHeaders
  readonly tls: TlsMaterial
  /** Takes the place of the client's own agent: connections through a proxy. */
  readonly agent?: Agent
}

/** Who Usher is to the API server. */
export interface Credentials {
  /** Cheap most of the time; rejects when there are none to be had. */
  current(): Promise<Access>
  /** Looks again at once, after a 401. True when that brought other ones. */
  refresh(): Promise<boolean>
  /** Ends what runs to get them; there are none to be had any more. */
  close?(): void
}
