/** Every kind of backend; they listen side by side in one process. */
export const backendNames = ['echo', 'one-shot', 'source', 'sink', 'udp-echo'] as const

export type BackendName = (typeof backendNames)[number]

/** Where each backend, or a proxy in front of it, listens on 127.0.0.1. */
export type Ports = Readonly<Record<BackendName, number>>

export const protocolOf = (backend: BackendName): 'tcp' | 'udp' =>
  backend === 'udp-echo' ? 'udp' : 'tcp'
