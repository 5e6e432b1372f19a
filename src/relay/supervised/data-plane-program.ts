import { programFile } from '../../util/own-files.ts'
import type { DataPlaneProgram } from './data-plane-process.ts'

/** A program that starts the data plane with fewer privileges than this process has. */
export interface Launcher {
  /** With its arguments, to be followed by what it is to start; empty: none. */
  readonly command: readonly string[]
  /** Why privileges stay that could go; '' when none do. */
  readonly reason: string
}

export const dataPlaneProgram = (launcher: readonly string[]): DataPlaneProgram => ({
  file: programFile('data-plane'),
  // None of this process's own: a debugger's port is not for it.
  execArgv: smallHeap,
  env: environment(),
  launcher,
})

/**
 * For each thread: a young generation of 1 MB a half in place of 16 (what arrives at the start
 * is 50 MB less), and garbage of a third of what lives before it is collected, from 16 MB on
 * (20 MB less with 5 000 Services).
 */
const smallHeap = [
  '--max-semi-space-size=1',
  '--initial-old-space-size=16',
  '--heap-growing-percent=30',
]

/** Where the launcher is found, and where Node and koffi find libraries: nothing else is needed. */
const passedOn = ['PATH', 'LD_LIBRARY_PATH'] as const

/** Without credentials, proxies and whatever else there is. */
const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    passedOn.flatMap(name => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
