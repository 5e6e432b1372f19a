import type { Test } from 'tap'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import { arrivals } from './arrivals.ts'
import { nothingFailed } from './nothing-failed.ts'
import { objectsOf } from './objects.ts'
import { serviceNamed, someServices } from './services.ts'
import { slowTools } from './slow-tools.ts'
import { makeStage, type Stage } from './stage.ts'
import { underLoad } from './under-load.ts'
import { type VipName, vipOf } from './vips.ts'
import { isOfKernel, type Way } from './ways.ts'

/** Ushers of these ways follow one another on one node, with clients that never stop. */
export const modeChangesUnderLoad = async (
  t: Test,
  ways: readonly Way[],
  { toolSeconds = 0 }: { readonly toolSeconds?: number } = {},
): Promise<void> => {
  const [first, ...others] = ways
  if (first === undefined) return
  const stage = await makeStage(t, first)
  await stage.manifests.write(...objectsOf(someServices))
  if (toolSeconds > 0) await slowTools(stage.tools, toolSeconds)
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
export const staying = (way: Way): readonly string[] =>
  isOfKernel(way) ? [] : ['--keep-rules']

const oneOfThem = {
  protocol: 'TCP',
  ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4'),
} as const

/** A SYN that met nobody is sent again after 1, 3, 7, 15, 31 and 63 s by older kernels. */
const patienceMs = 75_000
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
  // A UDP socket that was connected before its peer's IPv6 address became the host's may go on
  // by the route that it knows: the kernel looks for newer ones in that one's table only.
  const protocols = to.manner === 'local' ? (['TCP'] as const) : (['TCP', 'UDP'] as const)
  const everybody = arrivals(stage.agents, patienceMs, protocols)
  const load = await underLoad(
    stage.agents,
    async () => {
      usher.send('SIGTERM')
      t.match(await usher.exit, { code: 0 })
      next = stage.startBy(to, ...staying(to))
      await next.ready()
    },
    { isDialled: isForAll, timeoutMs: patienceMs },
  )
  t.comment(`${from.label} -> ${to.label}: ${load.text}`)
  nothingFailed(t, load)
  const { count, failures } = await everybody()
  t.strictSame(failures, [], `${count} who came meanwhile are answered`)
  t.equal(await open?.ask(), answeredBy, 'a connection through the kernel goes on')
  return next
}

/** What is written by some ways only; the first line of each that is there. */
const signs = {
  'the guard of the proxy address': /^table ip6? usher /m,
  'the table of Services': /^table ip6? usher-services /m,
  'maps to endpoints': /^\tmap service-ips \{/m,
  'chains of the capture': /^:KUBE-USHER-/m,
  'chains of the mode': /^:KUBE-SERVICES /m,
} as const

const signsOf = ({ manner, label }: Way): readonly string[] => {
  if (manner === 'iptables') return ['chains of the mode']
  if (manner === 'nftables') return ['the table of Services', 'maps to endpoints']
  if (manner === 'local') return []
  return label === 'nftables'
    ? ['the guard of the proxy address', 'the table of Services']
    : ['chains of the capture']
}

/** Nothing is left that only the ways before it write. */
const onlyOf = async (t: Test, stage: Stage, way: Way): Promise<void> => {
  const { all } = await stage.now()
  const found = Object.entries(signs).flatMap(([what, sign]) =>
    sign.test(all) ? [what] : [],
  )
  t.strictSame(found, signsOf(way), 'there is what it writes, and nothing else')
}
