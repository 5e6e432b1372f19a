import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { addressOf } from '../../support/net/addresses.ts'
import { until } from '../../support/until.ts'
import { matrix, tryCells } from './cells.ts'
import { iptablesTools } from './node-tools.ts'
import { families, objectsOf } from './objects.ts'
import { faultLines } from './report.ts'
import { serviceNamed } from './services.ts'
import { makeStage } from './stage.ts'
import type { Way } from './ways.ts'
import { vipOf } from './vips.ts'

/** Three syncs fail before a mode is given up, and each is tried again a little later. */
const patienceMs = 60_000

/** A mode whose tool goes away under it makes way for one that works. */
export const modeFallsBack = async (t: Test, way: Way): Promise<void> => {
  const stage = await makeStage(t, way)
  const usher = stage.start()
  await usher.ready()
  t.equal(await usher.mode(), 'iptables')
  const plain = serviceNamed('plain')
  const ofPlain = matrix.filter(({ service }) => service === plain)
  const before = await tryCells(ofPlain, stage.agents, 'iptables')
  t.strictSame(
    faultLines(way.label, before),
    [],
    `${ofPlain.length} cells in iptables mode`,
  )
  await breakIptables(stage.tools)
  const moved = { ...plain, backends: ['backend-1'] } as const
  await stage.manifests.write(...objectsOf([moved]))
  const isUserspace = async (): Promise<boolean> => (await usher.mode()) === 'userspace'
  await until('userspace runs', isUserspace, patienceMs)
  for (const family of families) {
    const to = { protocol: 'TCP', ...vipOf.ClusterIP(plain, family) } as const
    const isCarried = async (): Promise<boolean> => {
      const { backend, seen } = await stage.agents['pod-1'].dial(to, 5000)
      return backend === 'backend-1' && seen !== addressOf['pod-1'][family]
    }
    await until(`${family} is carried by a process, as it is now`, isCarried, 15_000)
  }
  const said = usher.records.filter(({ msg }) => /mode before no longer works/.test(msg))
  t.comment(said.map(record => JSON.stringify(record)).join('\n'))
  t.equal(said.length, 1, 'it says so once')
}

/** By none of its names it works any more; Usher would find the system's behind them. */
const breakIptables = async (tools: string): Promise<void> => {
  for (const backEnd of ['', '-nft', '-legacy'])
    for (const name of iptablesTools) {
      const path = join(tools, name.replace(/tables/, `tables${backEnd}`))
      await rm(path, { force: true })
      await writeFile(path, '#!/bin/sh\necho "its modules are gone" >&2\nexit 3\n', {
        mode: 0o755,
      })
    }
}
