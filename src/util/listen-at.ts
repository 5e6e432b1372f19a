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
