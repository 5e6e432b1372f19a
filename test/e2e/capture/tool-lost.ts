import { processTree } from '../../../bench/process/usage.ts'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { addressOf, type BackendName } from '../../support/net/addresses.ts'
import { commandOf, dataPlanes } from '../../support/data-plane.ts'
import { until } from '../../support/until.ts'
import { matrix, tryCells } from './cells.ts'
import { iptablesTools } from './node-tools.ts'
import { families, objectsOf } from './objects.ts'
import { faultLines } from './report.ts'
import { serviceNamed, someServices } from './services.ts'
import { makeStage, type Stage } from './stage.ts'
import { allNodePorts, type Way } from './ways.ts'
import { vipOf } from './vips.ts'

/** Three syncs fail before a mode is given up, and each is tried again a little later. */
const patienceMs = 60_000

/** Tools that go away, and the mode that runs then; `back`: of those gone before. */
export interface Fall {
  readonly lost: Tool
  readonly back?: 'nft'
  readonly to: 'iptables' | 'userspace'
}

type Tool = 'iptables' | 'nft'

export interface FallsOptions {
  /** The Service is carried by the relay before the first fall. */
  readonly isRelayed?: boolean
}

/** A mode whose tool goes away under it makes way for one that works, as often as it takes. */
export const modeFallsBack = async (
  t: Test,
  way: Way,
  falls: readonly Fall[],
  { isRelayed = false }: FallsOptions = {},
): Promise<void> => {
  const stage = await makeStage(t, way)
  await stage.manifests.write(
    ...(isRelayed ? objectsMoved('backend-3', true) : objectsOf(someServices)),
  )
  const usher = stage.start(...allNodePorts(way))
  await usher.ready()
  t.equal(await usher.mode(), way.manner)
  if (isRelayed) await isCarriedBy(stage, 'userspace', 'backend-3')
  else {
    const ofPlain = matrix.filter(({ service }) => service === plain)
    const before = await tryCells(ofPlain, stage.agents, way.manner)
    t.strictSame(faultLines(way.label, before), [], `${ofPlain.length} cells`)
  }
  for (const [index, fall] of falls.entries()) {
    const movedTo = index % 2 === 0 ? 'backend-1' : 'backend-2'
    await t.test(`${fall.lost} is lost: ${fall.to}`, async t => {
      const { lost, back, to } = fall
      if (back !== undefined) await repairTools(stage.tools, back)
      await breakTools(stage.tools, lost)
      await stage.manifests.write(...objectsMoved(movedTo, isRelayed))
      await until(`${to} runs`, async () => (await usher.mode()) === to, patienceMs)
      await isCarriedBy(stage, to, movedTo)
      const { relay } = await usher.status()
      t.equal(Boolean(relay), to === 'userspace', 'status tells of a relay that is')
      const planes = to === 'userspace' ? 1 : 0
      await until(
        'processes of before have ended',
        () =>
          dataPlanes(usher.pid).length === planes &&
          (to === 'userspace' || monitors(usher.pid).length === 0),
      )
    })
  }
  const said = usher.records.filter(({ msg }) =>
    /previous mode no longer works/.test(msg),
  )
  t.comment(said.map(record => JSON.stringify(record)).join('\n'))
  t.equal(said.length, falls.length, 'it says so once each time')
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
}

const plain = serviceNamed('plain')
/** The relay needs no tool for another endpoint of a Service that it has; the kernel mode does. */
const another = serviceNamed('loner')

interface Annotated {
  readonly kind: string
  readonly metadata: { readonly name: string; annotations?: Record<string, string> }
}

const objectsMoved = (to: BackendName, isRelayed: boolean): object[] => {
  const objects = objectsOf([
    { ...plain, backends: [to] },
    { ...another, backends: [to] },
  ]) as Annotated[]
  for (const { kind, metadata } of objects)
    if (kind === 'Service' && metadata.name === plain.name && isRelayed)
      metadata.annotations = { 'usher-proxy.io/relay': 'true' }
  return objects
}

/** What went by rules of before would go elsewhere now and then. */
const times = Array.from({ length: 12 }, (_, index) => index)

const isCarriedBy = async (
  { agents }: Stage,
  mode: Fall['to'],
  endpoint: BackendName,
): Promise<void> => {
  for (const family of families) {
    const at = { protocol: 'TCP', ...vipOf.ClusterIP(plain, family) } as const
    const isKernels = mode === 'iptables'
    const isCarried = async (): Promise<boolean> => {
      const all = await Promise.all(times.map(() => agents['pod-1'].dial(at, 5000)))
      return all.every(
        ({ backend, seen }) =>
          backend === endpoint && (seen === addressOf['pod-1'][family]) === isKernels,
      )
    }
    await until(`${family} is carried by ${mode}, as it is now`, isCarried)
  }
}

/** Those processes that only watch rules. */
const monitors = (pid: number): readonly number[] =>
  processTree(pid).filter(one => commandOf(one).includes('monitor'))

/** By none of its names it works any more; Usher would find the system's behind them. */
const breakTools = async (tools: string, lost: Tool): Promise<void> => {
  for (const name of namesOf(lost))
    await placeScript(join(tools, name), 'echo "its modules are gone" >&2; exit 3')
}

/**
 * In one step, and a script always: the kernel hands a script to the shell by its path, and a shell that
 * finds a program there by then runs that, byte for byte, as commands (`>` makes files).
 */
const placeScript = async (path: string, body: string): Promise<void> => {
  await writeFile(`${path}.new`, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
  await rename(`${path}.new`, path)
}

const namesOf = (tool: Tool): readonly string[] =>
  tool === 'nft'
    ? ['nft']
    : ['', '-nft', '-legacy'].flatMap(backEnd =>
        iptablesTools.map(name => name.replace(/tables/, `tables${backEnd}`)),
      )

const repairTools = (tools: string, tool: 'nft'): Promise<void> =>
  placeScript(join(tools, tool), `exec /usr/sbin/${tool} "$@"`)
