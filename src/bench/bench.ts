import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../cli/io.ts'
import type { OptionsOf } from '../config/typed.ts'
import { listing } from './listing.ts'
import { measureHere } from './measure-here.ts'
import { writeHtml, writeMarkdown } from './outputs.ts'
import { installPeers } from './peers/install.ts'
import { parseRecord } from './record/json.ts'
import { reportScenario, summary } from './report/terminal.ts'
import { chooseSandbox } from './sandbox/choose-sandbox.ts'
import { isToBePrepared, prepareSandbox } from './sandbox/prepare-sandbox.ts'
import { runInSandbox } from './sandbox/run-in-sandbox.ts'
import { planOf } from './plan.ts'
import { loopback } from './topology/loopback.ts'
import { namespaces } from './topology/namespaces.ts'

export type BenchOptions = OptionsOf<'bench'>

/**
 * `usher bench`: 0 when everything was measured, 1 when something failed, 2 for a wrong
 * call, 130 when interrupted. Where it can it runs itself once more in a sandbox, so that
 * nothing of what it starts and makes can outlive it.
 */
export const bench = async (options: BenchOptions, io: Io): Promise<number> => {
  if (options.from !== '') return fromFile(options, io)
  if (isToBePrepared()) return inSandbox(options, io)
  // A wrong name is to be told before anything is installed or started.
  planOf(options, '')
  if (options.installPeers && !options.list)
    await installPeers(line => io.err(`${line}\n`))
  const { kind, why: whyNoSandbox } = await chooseSandbox()
  const whyLoopback = loopbackWish(options) || whyNoSandbox
  if (options.list)
    return listing(options, { kind: whyLoopback === '' ? 'namespaces' : 'loopback' }, io)
  if (kind === undefined) return withoutSandbox(options, io, whyLoopback)
  const { execPath, execArgv, argv } = process
  return runInSandbox(kind, [execPath, ...execArgv, ...argv.slice(1)], {
    network: whyLoopback === '' ? 'own' : 'host',
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
  const why = loopbackWish(options)
  const topology = why === '' ? await namespaces(sandbox) : loopback()
  return measureHere({ options, io, topology, workDirectory, why })
}

const withoutSandbox = async (
  options: BenchOptions,
  io: Io,
  why: string,
): Promise<number> => {
  const workDirectory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  try {
    return await measureHere({ options, io, topology: loopback(), workDirectory, why })
  } finally {
    await rm(workDirectory, { recursive: true, force: true })
  }
}

/** The reports of an earlier run, made anew. */
const fromFile = async (
  { from, markdown }: BenchOptions,
  { out }: Io,
): Promise<number> => {
  const record = parseRecord(await readFile(from, 'utf8'), from)
  for (const scenario of record.scenarios)
    out(`${reportScenario(scenario, record).join('\n')}\n\n`)
  out(`${summary(record).join('\n')}\n`)
  const html = writeHtml(record, from.replace(/(?:\.json)?$/, '.html'))
  const page = markdown === '' ? [] : writeMarkdown(record, markdown)
  out(`\nWritten: ${[html, ...page].join(', ')}\n`)
  return 0
}
