import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { makeNetns } from '../../support/netns.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'
import { meaningOf } from './listing.ts'
import { situationsOf } from './situations.ts'
import { makeWorld, manyServices, skip, snapshotOf } from './world.ts'

const settings = situationsOf('IPv4')['pods by their addresses']?.settings
if (settings === undefined) throw new Error('no settings')

/** Services on one port, or on another: what a table may have, and nothing between them. */
const [before, after] = [manyServices(2000, 80), manyServices(2000, 81)]

const meanings = async () => {
  const { list, proxier } = await makeWorld()
  const one = proxier()
  const both: string[] = []
  for (const all of [before, after]) {
    await one.sync(snapshotOf(all), settings)
    both.push(meaningOf(await list()).lines.join('\n'))
  }
  const [first = '', last = ''] = both
  t.not(first, last)
  return { first, last }
}

t.test('a table is as before or as after, whenever nft is killed', { skip }, async t => {
  const { first, last } = await meanings()
  const netns = await makeNetns('nft-kill')
  let patience: number | undefined
  const around =
    (run: RunTool): RunTool =>
    (command, args, options = {}) =>
      run(
        command,
        args,
        patience === undefined ? options : { ...options, timeoutMs: patience },
      )
  const { list, proxier, told } = await makeWorld({ run: netns.run, around })
  const one = proxier()
  await one.sync(snapshotOf(before), settings)
  const seen = { before: 0, after: 0 }
  for (const ms of [20, 50, 100, 200, 400]) {
    patience = ms
    await one.sync(snapshotOf(after), settings).catch((error: unknown) => {
      t.type(error, ToolError)
    })
    // What was killed may be on its way out of the kernel.
    patience = undefined
    await until('no nft is there', async () => !/nft/.test(await programsIn(netns)))
    const found = meaningOf(await list()).lines.join('\n')
    seen[found === first ? 'before' : 'after'] += 1
    t.ok(found === first || found === last, `after ${ms} ms`)
    await one.sync(snapshotOf(after), settings)
    t.ok(meaningOf(await list()).lines.join('\n') === last, 'repaired')
    await one.sync(snapshotOf(before), settings)
    t.ok(meaningOf(await list()).lines.join('\n') === first)
  }
  t.comment(seen, told)
})

const programsIn = async ({ run, name }: Awaited<ReturnType<typeof makeNetns>>) => {
  const pids = (await run('ip', ['netns', 'pids', name])).split('\n').filter(Boolean)
  if (pids.length === 0) return ''
  return run('ps', ['-o', 'comm=', '-p', pids.join()]).catch(() => '')
}

const program = fileURLToPath(new URL('syncing-program.ts', import.meta.url))

t.test(
  'a table is as before or as after, whenever Usher is killed',
  { skip },
  async t => {
    const { first, last } = await meanings()
    const netns = await makeNetns('nft-kill')
    const { list, proxier, told } = await makeWorld({ run: netns.run })
    await proxier().sync(snapshotOf(before), settings)
    const start = async (port: number) => {
      const [command = '', ...args] = netns.prefix.concat(process.execPath, typescript)
      const child = spawn(command, [...args, program, String(port)], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      await once(child.stdout, 'data')
      return child
    }
    for (const ms of [60, 250, 500, 1000]) {
      const child = await start(81)
      const ended = once(child, 'close')
      child.stdin.write('go\n')
      await sleep(ms)
      child.kill('SIGKILL')
      await ended
      await until('no nft is there', async () => !/nft/.test(await programsIn(netns)))
      const found = meaningOf(await list()).lines.join('\n')
      t.ok(
        found === first || found === last,
        `after ${ms} ms: as ${found === first ? 'before' : 'after'}`,
      )
      const next = proxier()
      t.same(await next.sync(snapshotOf(before), settings), { work: 'full' })
      t.same(meaningOf(await list()), { lines: first.split('\n'), stale: [] })
    }
    t.same(told, [])
  },
)
