import type { Test } from 'tap'
import type { NodeUsher } from '../../../support/net/node-usher.ts'
import { nothingFailed } from './nothing-failed.ts'
import { serviceNamed } from './services.ts'
import { makeStage, type Stage } from './stage.ts'
import { underLoad } from './under-load.ts'
import { type VipName, vipOf } from './vips.ts'
import { isOfKernel, type Way } from './ways.ts'

/** Ushers of these ways follow one another on one node, with clients that never stop. */
export const modeChangesUnderLoad = async (
  t: Test,
  ways: readonly Way[],
): Promise<void> => {
  const [first, ...others] = ways
  if (first === undefined) return
  const stage = await makeStage(t, first)
  let present = first
  let usher = stage.start(...staying(first))
  await usher.ready()
  for (const next of others) {
    await t.test(`${present.label} -> ${next.label}`, async t => {
      usher = await change(t, stage, usher, present, next)
      await onlyOf(t, stage, next)
    })
    present = next
  }
  usher.send('SIGTERM')
  await usher.exit
}

/** Without it, userspace takes its rules along, and nobody is served until the next comes. */
const staying = (way: Way): readonly string[] => (isOfKernel(way) ? [] : ['--keep-rules'])

const oneOfThem = {
  protocol: 'TCP',
  ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4'),
} as const

/** A SYN that met nobody is sent again after 1, 3 and 7 s. */
const patienceMs = 15_000
/** That of loopback has no IPv6 in the kernel modes. */
const isForAll = (vip: VipName): boolean => vip !== 'node port, loopback'

const change = async (
  t: Test,
  stage: Stage,
  usher: NodeUsher,
  from: Way,
  to: Way,
): Promise<NodeUsher> => {
  // Userspace would wait for it to end, and take no new clients meanwhile.
  const open = isOfKernel(from) ? await stage.agents['pod-1'].open(oneOfThem) : undefined
  const answeredBy = await open?.ask()
  let next = usher
  const load = await underLoad(
    stage.agents,
    async () => {
      usher.send('SIGTERM')
      t.match(await usher.exit, { code: 0 })
      next = stage.startBy(to, ...staying(to))
      await next.ready()
    },
    patienceMs,
    isForAll,
  )
  t.comment(`${from.label} -> ${to.label}: ${load.text}`)
  nothingFailed(t, load)
  t.equal(await open?.ask(), answeredBy, 'a connection through the kernel goes on')
  return next
}

/** Nothing is left that only the ways before it write. */
const onlyOf = async (t: Test, stage: Stage, way: Way): Promise<void> => {
  const { all } = await stage.now()
  const [present, absent] = isOfKernel(way)
    ? [/-A KUBE-SERVICES /, /table ip6? usher|USHER-/]
    : [/table ip6? usher|USHER-/, /KUBE-(SVC|SEP|SERVICES)/]
  t.match(all, present, 'there are rules of its own')
  t.notMatch(all, absent, 'there are none of the other')
}
