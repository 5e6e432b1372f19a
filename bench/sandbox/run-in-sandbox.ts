import { type ChildProcess, spawn } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { constants } from 'node:os'
import { toolEnv } from '../../src/kernel/run-tool.ts'
import {
  markerName,
  sandboxCommand,
  type SandboxKind,
  type SandboxNetwork,
} from './command.ts'
import { endingSignals } from '../process/signals.ts'

export interface SandboxOptions {
  /** What the program finds in its environment; by default that of this process. */
  readonly env?: NodeJS.ProcessEnv
  /** By default its own. */
  readonly network?: SandboxNetwork
}

/** After so many signals the sandbox is killed, without an orderly end. */
const signalsThatKill = 3

/**
 * Runs a Node program that calls `prepareSandbox` in a sandbox, with this process' input
 * and output, and resolves with its exit code (128 and the signal's number where one ended
 * it). SIGINT, SIGTERM and SIGHUP of this process reach it once each; the third of them
 * ends it at once. Rejects when it can't be started.
 */
export const runInSandbox = async (
  kind: SandboxKind,
  argv: readonly string[],
  { env = process.env, network = 'own' }: SandboxOptions = {},
): Promise<number> => {
  const [command = '', ...args] = [...sandboxCommand(kind, network), ...argv]
  const child = spawn(command, args, {
    // A session of its own: the terminal's signals reach this process only, which hands
    // them on. At a SIGHUP unshare would end, and everything with it.
    detached: true,
    // The channel carries signals: process 1 of a namespace does not get those that it has
    // no handler for yet (pid_namespaces(7)), and a message waits.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: {
      ...env,
      PATH: toolEnv()['PATH'],
      [markerName]: `${kind} ${readlinkSync('/proc/self/ns/mnt')}`,
    },
  })
  const stopForwarding = forwardSignals(child)
  try {
    return await exitCode(child)
  } finally {
    stopForwarding()
  }
}

const forwardSignals = (child: ChildProcess): (() => void) => {
  let count = 0
  const forward = (signal: (typeof endingSignals)[number]): void => {
    count += 1
    if (count >= signalsThatKill) child.kill('SIGKILL')
    // It has ended already when it can't be sent; its exit is on its way.
    else if (child.connected) child.send({ signal }, () => undefined)
  }
  for (const signal of endingSignals) process.on(signal, forward)
  return () => {
    for (const signal of endingSignals) process.off(signal, forward)
  }
}

const exitCode = (child: ChildProcess): Promise<number> =>
  new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']),
    )
  })
