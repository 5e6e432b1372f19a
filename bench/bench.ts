import { rmSync } from 'node:fs'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { visible } from '../src/cli/io.ts'
import { measureHere } from './measure-here.ts'
import { messageOf } from './measure.ts'
import { checkOutputs, writeHtml, writeMarkdown } from './outputs.ts'
import { installPeers } from './peers/install.ts'
import { listing, planOf } from './plan.ts'
import { kill, pinningProblem } from './process/signals.ts'
import { processTree } from './process/usage.ts'
import { parseRecord } from './record/record.ts'
import { reportScenario, summary } from './report/terminal.ts'
import {
  chooseSandbox,
  isToBePrepared,
  prepareSandbox,
  runInSandbox,
} from './sandbox/sandbox.ts'
import type { BenchOptions, Io } from './setup.ts'
import { namespaces } from './topology/namespaces.ts'
import { loopback } from './topology/topology.ts'

/**
 * `usher bench`: 0 when everything was measured, 1 when something failed, 2 for a wrong
 * call, 130 when interrupted. Where it can it runs itself once more in a sandbox, so that
 * nothing of what it starts and makes can outlive it.
 */
export const bench = async (options: BenchOptions, io: Io): Promise<number> => {
  try {
    return await (options.from === '' ? measured(options, io) : fromFile(options, io))
  } catch (error) {
    // Others are a fault of Usher's own, which needs its stack, or told without it.
    if (!(error instanceof Error) || error.constructor !== Error) throw error
    io.err(`usher bench: ${visible(error.message)}\n`)
    return 1
  }
}

const measured = async (options: BenchOptions, io: Io): Promise<number> => {
  if (isToBePrepared()) return inSandbox(options, io)
  // A wrong name is reported before anything is installed or started.
  planOf(options)
  const { kind, why: sandboxProblem } = await chooseSandbox()
  const loopbackReason = loopbackWish(options) || sandboxProblem
  if (options.list) {
    if (loopbackReason !== '') io.out(`Everything on 127.0.0.1: ${loopbackReason}.\n\n`)
    return listing(
      options,
      { kind: loopbackReason === '' ? 'namespaces' : 'loopback' },
      io,
    )
  }
  checkOutputs(options, kind === undefined ? '' : '/run')
  const notPinned = options.pin ? await pinningProblem() : ''
  if (notPinned !== '')
    throw new Error(`--pin needs CPUs 0 and 1 and taskset: ${notPinned}`)
  if (options.installPeers) await installPeers(line => io.err(`${line}\n`))
  if (kind === undefined) return withoutSandbox(options, io, loopbackReason)
  const { execPath, execArgv, argv } = process
  return runInSandbox(kind, [execPath, ...execArgv, ...argv.slice(1)], {
    network: loopbackReason === '' ? 'own' : 'host',
  })
}

/** Why everything is to be on 127.0.0.1; '' when it need not. */
const loopbackWish = ({ loopback: wished, target, backend }: BenchOptions): string => {
  if (wished) return '--loopback was given'
  return target.length + backend.length > 0
    ? "addresses were given, which only this host's own network knows"
    : ''
}

const inSandbox = async (options: BenchOptions, io: Io): Promise<number> => {
  const sandbox = await prepareSandbox()
  const { workDirectory } = sandbox
  const loopbackReason = loopbackWish(options)
  const topology = loopbackReason === '' ? await namespaces(sandbox) : loopback()
  return measureHere({ options, io, topology, workDirectory, loopbackReason })
}

const withoutSandbox = async (
  options: BenchOptions,
  io: Io,
  loopbackReason: string,
): Promise<number> => {
  const workDirectory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  // For what its own processes keep in temporary files.
  process.env['TMPDIR'] = workDirectory
  // At a second signal, too, and at a fault.
  const endAll = (): void => {
    for (const pid of processTree(process.pid).slice(1)) kill(pid)
    rmSync(workDirectory, { recursive: true, force: true })
  }
  process.on('exit', endAll)
  try {
    const topology = loopback()
    return await measureHere({ options, io, topology, workDirectory, loopbackReason })
  } finally {
    process.off('exit', endAll)
    await rm(workDirectory, { recursive: true, force: true })
  }
}

/** The reports of an earlier run, made anew. */
const fromFile = async (
  { from, markdown }: BenchOptions,
  { out }: Io,
): Promise<number> => {
  const record = parseRecord(await contentOf(from), from)
  for (const scenario of record.scenarios)
    out(`${reportScenario(scenario, record).join('\n')}\n\n`)
  out(`${summary(record).join('\n')}\n`)
  const html = writeHtml(record, from.replace(/(?:\.json)?$/, '.html'))
  const page = markdown === '' ? [] : writeMarkdown(record, markdown)
  out(`\nWritten: ${[html, ...page].join(', ')}\n`)
  return 0
}

/** Far above what a run leaves, far below what does not fit into a string. */
const largestBytes = 64 * 1024 * 1024

const contentOf = async (file: string): Promise<string> => {
  const wanted = 'give the JSON file of an earlier run'
  try {
    const found = await stat(file)
    if (found.isDirectory()) throw new Error('it is a directory')
    if (found.size > largestBytes) throw new Error(`it has ${found.size} bytes`)
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new Error(`--from ${file}: ${messageOf(error)}; ${wanted}`, { cause: error })
  }
}
