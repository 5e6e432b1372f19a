import type { Io } from '../cli/io.ts'
import type { BenchOptions } from './bench.ts'
import { headerOf } from './header.ts'
import { listenForInterruption } from './interruption.ts'
import { measureAll } from './measure-all.ts'
import { type Closers, openStage } from './open-stage.ts'
import { writeMarkdown, writeResults } from './outputs.ts'
import { planOf } from './plan.ts'
import type { LeftOut, RunRecord } from './record/record.ts'
import { failuresOf } from './record/troubles.ts'
import { introduction, summary } from './report/terminal.ts'
import type { Target } from './targets/target.ts'
import { chooseTools } from './tools.ts'
import type { Topology } from './topology/topology.ts'

/** Where to measure, and for whom. */
export interface Here {
  readonly options: BenchOptions
  readonly io: Io
  readonly topology: Topology
  /** For configurations and sockets; who made it removes it. */
  readonly workDirectory: string
  /** Why it is not measured in namespaces; '' when it is. */
  readonly why: string
}

/** Starts everything, measures, prints, writes the results, and ends everything. */
export const measureHere = async (here: Here): Promise<number> => {
  const { options, io, topology, workDirectory } = here
  const { signal, stop } = listenForInterruption()
  const closers: Closers = [() => topology.close(), async () => stop()]
  try {
    const tools = await chooseTools()
    const wanted = planOf(options, workDirectory)
    const { targets, leftOut } = await possible(wanted.targets, topology)
    const plan = { ...wanted, targets }
    const header = await headerOf(here, plan, tools)
    io.out(`${introduction(header).join('\n')}\n`)
    for (const { name, why } of leftOut) io.out(`left out: ${name}: ${why}\n`)
    const stage = await openStage(here, tools, signal, closers)
    const record = await measureAll({
      ...{ plan, stage, header, leftOut, signal, out: io.out },
    })
    return conclude(record, here)
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

const possible = async (targets: readonly Target[], topology: Topology) => {
  const leftOut: LeftOut[] = []
  const can: Target[] = []
  for (const target of targets) {
    const why = await target.whyNot(topology)
    if (why === '') can.push(target)
    else leftOut.push({ name: target.name, why })
  }
  return { targets: can, leftOut }
}

const conclude = (record: RunRecord, { options, io }: Here): number => {
  io.out(`${summary(record).join('\n')}\n`)
  const written = writeResults(record, options.output)
  const page = options.markdown === '' ? [] : writeMarkdown(record, options.markdown)
  io.out(`\nWritten: ${[...written, ...page].join(', ')}\n`)
  if (!record.complete) return 130
  const failed = record.scenarios.some(scenario =>
    record.targets.some(({ name }) => failuresOf(scenario, name).size > 0),
  )
  return failed ? 1 : 0
}
