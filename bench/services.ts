/** Where something listens. */
export interface Endpoint {
  readonly address: string
  readonly port: number
}

/** A Service as targets are given it: they lead its clients to its endpoints, by turns. */
export interface BenchService {
  /** Also a Kubernetes name: lower-case letters, digits and dashes. */
  readonly name: string
  readonly protocol: 'TCP' | 'UDP'
  readonly endpoints: readonly Endpoint[]
  /** How the endpoints are looked after by targets that do that. */
  readonly care?: Care
}

/** What a route of a sidecar can be told about its endpoints. */
export interface Care {
  readonly check: CheckKind
  /** The path of an `http` check, and its port where that isn't the endpoint's own. */
  readonly path?: string
  readonly port?: number
  /** Connections to an endpoint that goes down are reset. */
  readonly resets?: true
  /** What a client says first may be said to another endpoint again. */
  readonly replays?: true
  /** Connections go where there are fewest. */
  readonly leastConnections?: true
  /** How many connections each endpoint may have; clients wait for a place for 5 s. */
  readonly maxConnections?: number
}

export type CheckKind = 'none' | 'tcp' | 'http' | 'redis' | 'postgres'

/**
 * What every backend pod speaks.
 * `http`: `GET /64` and `GET /16384` answer with so many bytes, kept open or, asked with
 * `Connection: close`, closed by the server. `source` sends without end, `sink` reads and
 * acknowledges, `udp` sends each datagram back.
 */
export const standardServices = {
  http: 'TCP',
  source: 'TCP',
  sink: 'TCP',
  udp: 'UDP',
} as const

export type StandardService = keyof typeof standardServices

/** Where one pod listens for each; addresses differ by who looks, ports don't. */
export type PodPorts = Readonly<Record<StandardService, number>>
