import { execFile } from 'node:child_process'
import { toolEnv } from '../../src/kernel/run-tool.ts'

/** A program that has to be installed. */
export interface Program {
  readonly command: string
  /** What makes it tell its version. */
  readonly versionArg: string
  /** The Debian package it is in. */
  readonly packageName: string
}

const program = (
  command: string,
  versionArg = '--version',
  packageName = command,
): Program => ({ command, versionArg, packageName })

export const haproxy = program('haproxy', '-v')
export const nginx = program('nginx', '-v')
export const nft = program('nft', '--version', 'nftables')
export const iptables = program('iptables')
export const ipvsadm = program('ipvsadm')
export const ipset = program('ipset')
export const ip = program('ip', '-V', 'iproute2')

/** Versions of the programs that targets need, by name; those that are installed. */
export const versions = async (): Promise<Record<string, string>> => {
  const found: Record<string, string> = { node: process.versions.node }
  for (const one of [haproxy, nginx, nft, iptables, ipvsadm]) {
    const version = await versionOf(one)
    if (version !== undefined) found[one.command] = version
  }
  return found
}

/** Its version, a number with dots; undefined where it isn't installed. */
const versionOf = async ({ command, versionArg }: Program) => {
  try {
    const output = await outputOf(command, versionArg)
    return /\d+(?:\.\d+)+[\w.+~-]*/.exec(output)?.[0] ?? output.trim().split('\n')[0]
  } catch {
    return undefined
  }
}

const answersWithinMs = 5000

/** All that a program writes, on both channels. Rejects when it can't be run or fails. */
export const outputOf = (command: string, ...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const options = { env: toolEnv(), timeout: answersWithinMs }
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error) reject(error)
      else resolve(stdout + stderr)
    })
  })

/** Why a program can't be run here, '' when it can: it is tried. */
export const programProblem = async (needed: Program): Promise<string> => {
  const { command, versionArg, packageName } = needed
  try {
    await outputOf(command, versionArg)
    return ''
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return code === 'ENOENT'
      ? `${command} is not installed (Debian package ${packageName})`
      : `${command} does not run here: ${message.trim().split('\n').at(-1)}`
  }
}

/** The first of the reasons against something; '' when there is none. */
export const firstProblem = async (
  reasons: readonly string[],
  needed: readonly Program[] = [],
): Promise<string> =>
  reasons.find(Boolean) ??
  (await Promise.all(needed.map(programProblem))).find(Boolean) ??
  ''
