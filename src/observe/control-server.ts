import type { Problem } from '../model/snapshot.ts'
import type { Clock } from '../util/clock.ts'
import type { Routes } from './admin-routes.ts'
import { closeServer, smallHttpServer } from './small-http-server.ts'
import {
  givenSocket,
  listenOnFile,
  type ControlSocketFile,
} from './control-socket-file.ts'
import type { Log } from './log.ts'

export interface ControlServerOptions {
  readonly path: string
  readonly routes: Routes
  readonly log: Log
  readonly clock: Clock
}

export interface ControlServer {
  /** What has become of the socket's file; none while all is well. */
  problems(): readonly Problem[]
  close(): Promise<void>
}

/**
 * Starts the HTTP server on the control socket. Rejects with CANNOT_LISTEN where it can't: a
 * socket that orders are given by is not tried again later, when others may have its place.
 */
export const startControlServer = async ({
  path,
  routes,
  log,
  clock,
}: ControlServerOptions): Promise<ControlServer> => {
  let file: ControlSocketFile | undefined
  const server = smallHttpServer({
    name: 'control',
    routes,
    log,
    clock,
    // Others may have been given a right to it since, who must not have it.
    refusal: () => file?.problem() ?? '',
  })
  const listening = await listenOnFile(server, path)
  file = listening
  server.on('error', err =>
    log.warn({ server: 'control', err }, 'could not accept a connection'),
  )
  log.info({ socket: path }, 'control socket is listening')
  return {
    problems: () => problemsOf(path, listening.problem()),
    close: async () => {
      listening.remove()
      await closeServer(server)
    },
  }
}

const problemsOf = (path: string, message: string): readonly Problem[] =>
  message === '' ? [] : [{ object: givenSocket(path), field: '', message }]
