import type { ListenOptions, Server } from 'node:net'

/** Resolves when the server listens; what is bound, is so within the call. */
export const listenAt = (server: Server, where: ListenOptions): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(where, () => {
      server.removeListener('error', reject)
      resolve()
    })
  })

const causes: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'another process listens there; end it or '],
  ['EACCES', 'ports below 1024 need CAP_NET_BIND_SERVICE; grant it or '],
  ['EADDRNOTAVAIL', 'this host does not have the address; '],
])

/** What to do about an address that can't be listened on, by its errno; or `otherwise`. */
export const listenAdvice = (code: string | undefined, otherwise: string): string =>
  `${causes.get(code ?? '') ?? ''}${otherwise}`
