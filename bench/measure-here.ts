import { headerOf } from './header.ts'
import { measureAll, messageOfAll } from './measure-all.ts'
import { messageOf } from './measure.ts'
import { keepResults } from './outputs.ts'
import { planOf } from './plan.ts'
import { failuresOf } from './record/findings.ts'
import type { LeftOut, RunRecord } from './record/record.ts'
import { introduction, summary } from './report/terminal.ts'
import type { Setup } from './setup.ts'
import {
  type Closers,
  type Interruption,
  listenForInterruption,
  openStage,
} from './stage.ts'
import type { Target } from './targets/target.ts'
import { chooseTools } from './tools.ts'
import type { Topology } from './topology/topology.ts'

/** Starts everything, measures, prints, writes the results, and ends everything. */
export const measureHere = async (setup: Setup): Promise<number> => {
  const { options, io, topology } = setup
  const interruption = listenForInterruption(io.gone)
  const { signal } = interruption
  const closers: Closers = [() => topology.close(), async () => interruption.stop()]
  try {
    const tools = await chooseTools()
    const wanted = planOf(options)
    const { targets, leftOut } = await possible(wanted.targets, topology)
    if (targets.length === 0)
      throw new Error(`no target is left: ${messageOfAll(leftOut)}`)
    const plan = { ...wanted, targets }
    const header = await headerOf(setup, plan, tools)
    io.out(`${introduction(header).join('\n')}\n`)
    for (const { name, why } of leftOut) io.out(`left out: ${name}: ${why}\n`)
    const stage = await openStage(setup, tools, interruption, closers)
    const record = await measureAll({
      plan,
      stage,
      header,
      leftOut,
      signal,
      out: io.out,
    })
    return conclude(record, setup, interruption)
  } finally {
    await closeAll(closers, io)
  }
}

/** What can't be ended does not keep the others running. */
const closeAll = async (closers: Closers, { err }: Setup['io']): Promise<void> => {
  for (const close of closers.toReversed())
    await close().catch((error: unknown) =>
      err(`usher bench: could not end all: ${messageOf(error)}\n`),
    )
}

const possible = async (targets: readonly Target[], topology: Topology) => {
  const leftOut: LeftOut[] = []
  const can: Target[] = []
  for (const target of targets) {
    const why = await target.unsupportedReason(topology)
    if (why === '') can.push(target)
    else leftOut.push({ name: target.name, why })
  }
  return { targets: can, leftOut }
}

const conclude = (
  record: RunRecord,
  { options, io }: Setup,
  interruption: Interruption,
): number => {
  const why = interruption.why()
  if (why !== '') io.err(`usher bench: ended early: ${why}\n`)
  const code = record.complete ? 0 : why === '' ? 130 : 1
  if (record.scenarios.every(({ outcomes }) => outcomes.length === 0) && code !== 0) {
    io.out('Interrupted before anything was measured: nothing is written.\n')
    return code
  }
  io.out(`${summary(record).join('\n')}\n`)
  const { written, troubles } = keepResults(record, options, io.out)
  if (written.length > 0) io.out(`\nWritten: ${written.join(', ')}\n`)
  for (const trouble of troubles) io.err(`usher bench: ${trouble}\n`)
  return code || Number(hasFailed(record) || troubles.length > 0)
}

/** Whether something could not be measured that should have been. */
const hasFailed = ({ leftOut, scenarios, targets }: RunRecord): boolean =>
  [leftOut, ...scenarios.map(scenario => scenario.leftOut)].flat().some(isFailure) ||
  scenarios.some(scenario =>
    targets.some(({ name }) => failuresOf(scenario, name).size > 0),
  )

const isFailure = ({ failed }: LeftOut): boolean => failed === true
