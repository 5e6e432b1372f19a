import { execFile } from 'node:child_process'
import { toolEnv } from '../../src/kernel/run-tool.ts'

/** A program that has to be installed. */
export interface Program {
  readonly command: string
  /** What makes it tell its version. */
  readonly versionArgs: readonly string[]
  /** The Debian package it is in. */
  readonly packageName: string
}

const answersWithinMs = 5000

/** All that a program writes, on both channels. Rejects when it can't be run or fails. */
export const outputOf = (command: string, args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const options = { env: toolEnv(), timeout: answersWithinMs }
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error) reject(error)
      else resolve(stdout + stderr)
    })
  })

/** Why a program can't be run here, '' when it can: it is tried. */
export const programProblem = async (program: Program): Promise<string> => {
  const { command, versionArgs, packageName } = program
  try {
    await outputOf(command, versionArgs)
    return ''
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT'
      ? `${command} is not installed (Debian package ${packageName})`
      : `${command} does not run here: ${message.trim().split('\n').at(-1)}`
  }
}

/** Its version, a number with dots; undefined where it isn't installed. */
export const versionOf = async (program: Program): Promise<string | undefined> => {
  try {
    const output = await outputOf(program.command, program.versionArgs)
    return /\d+(?:\.\d+)+[\w.+~-]*/.exec(output)?.[0] ?? output.trim().split('\n')[0]
  } catch {
    return undefined
  }
}
