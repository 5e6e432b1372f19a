import { loadSyscalls } from '../../../ffi/syscalls.ts'
import { programFile } from '../../../util/own-files.ts'
import type { KeepAliveLimits } from '../../engine/keep-alive.ts'
import type { SocketLayer } from '../../engine/socket-layer.ts'
import { LinuxListening } from './listening-sockets.ts'
import { type WorkerProgram, WorkerThread } from './worker-thread.ts'

const packedWorker: WorkerProgram = { file: programFile('relay-worker') }

/** System calls, with each worker in a thread of its own. Throws where they can't be made. */
export const linuxLayer = (
  limits: KeepAliveLimits,
  program = packedWorker,
  calls = loadSyscalls(),
): SocketLayer => ({
  calls,
  listening: new LinuxListening(calls, limits),
  hasThreads: true,
  startWorker: (setup, remote, retired) =>
    new WorkerThread(calls, program, setup, remote, retired),
})
