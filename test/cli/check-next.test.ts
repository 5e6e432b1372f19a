import t from 'tap'
import { lacking, nextOfNode, nextOfRoutes, nextOfRun } from '../../src/cli/check-next.ts'
import type { NodeFindings } from '../../src/cli/check-node.ts'
import { runSettings } from '../../src/config/run-settings.ts'

const works = { usable: true, detail: '' }
const broken = { usable: false, detail: 'there is no nft' }
const denied = { usable: false, detail: 'nft list: Operation not permitted' }

const each = <N extends string>(names: readonly N[], found: typeof works) =>
  names.map(name => ({ name, usable: found.usable, detail: found.detail }))
const modeNames = ['nftables', 'ipvs', 'iptables'] as const

const findings = (over: Partial<NodeFindings> = {}): NodeFindings => ({
  modes: each(modeNames, works),
  captures: each(['nftables', 'iptables', 'local'], works),
  connectTime: works,
  relay: { name: 'linux', detail: '', passedOver: [], workers: 1 },
  bridges: '',
  ...over,
})

interface Node {
  readonly args?: readonly string[]
  readonly found?: Partial<NodeFindings>
  readonly beside?: Parameters<typeof nextOfNode>[0]['beside']
  readonly inPod?: boolean
}

const next = async ({ args = [], found, beside, inPod = false }: Node = {}) =>
  nextOfNode({
    ...(await runSettings(args, async () => '', 'check')),
    args,
    findings: findings(found),
    beside,
    inPod,
  })

t.test('what was checked is what is to be run', async t => {
  const hint = 'without a cluster: --manifests PATH in place of --kubeconfig'
  t.strictSame(await next(), ['usher run --kubeconfig FILE', hint])
  t.strictSame(await next({ args: ['--proxy-mode', 'nftables'] }), [
    'usher run --kubeconfig FILE --proxy-mode nftables',
    hint,
  ])
  t.strictSame(await next({ args: ['--kubeconfig=my file'] }), [
    "usher run '--kubeconfig=my file'",
  ])
  t.strictSame(await next({ inPod: true }), ['usher run'])
})

t.test('what is asked for and does not work has something in its place', async t => {
  const none = each(modeNames, broken)
  for (const [args, found, said] of [
    ['--proxy-mode=ipvs', { modes: none }, '--proxy-mode ipvs .*; give userspace'],
    [
      '--proxy-mode=nftables',
      { modes: [{ name: 'nftables', ...broken }, ...findings().modes.slice(1)] },
      '--proxy-mode nftables does not work here; give iptables',
    ],
    [
      '--capture=nftables',
      { captures: [{ name: 'nftables', ...broken }] },
      '--capture nftables .*; give listen',
    ],
    [
      '--relay=linux',
      {
        relay: {
          ...findings().relay,
          name: 'portable',
          passedOver: [{ name: 'linux', detail: 'no koffi' }],
        },
      },
      '--relay linux .*; leave it out',
    ],
    ['--connect-time=on', { connectTime: broken }, '--connect-time on .*; leave it out'],
  ] as const) {
    const lines = await next({ args: [args], found })
    t.equal(lines.length, 1)
    t.match(lines[0], new RegExp(said))
  }
})

t.test('what may lack but rights is not to be changed', async t => {
  const found = { modes: each(modeNames, denied) }
  t.strictSame(await next({ args: ['--proxy-mode=iptables'], found }), [
    '--proxy-mode iptables does not work without privileges: check again as root',
  ])
  const text =
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n'
  const settings = await runSettings(['--config', 'c'], async () => text, 'check')
  t.strictSame(
    lacking(settings, findings(found)).map(({ advice }) => advice),
    ['mode in c: iptables does not work without privileges: check again as root'],
  )
})

t.test('without rights more would work as root', async t => {
  const lines = await next({ found: { modes: [{ name: 'nftables', ...denied }] } })
  t.equal(lines.at(-1), 'more works as root: check again as root')
})

t.test('a proxy that serves the node is not disturbed', async t => {
  const kubeProxy = await next({ args: ['-v=1'], beside: { mode: 'iptables' } })
  t.equal(
    kubeProxy[0],
    'usher run --kubeconfig FILE --capture none --metrics-bind-address off --healthz-bind-address off',
  )
  t.match(kubeProxy[1], /iptables mode that serves this node; to replace that, end it/)
  const own = await next({ beside: { mode: 'userspace', usher: 'serving' } })
  t.match(own, [/^usher status /])
})

t.test('words of a command line are quoted for a shell', async t => {
  t.equal(
    nextOfRoutes(['--config', "it's.yaml"]),
    String.raw`usher sidecar --config 'it'\''s.yaml'`,
  )
  const settings = await runSettings(['a b', '--capture=none'], async () => '', 'check')
  t.strictSame(nextOfRun(['a b', '--capture=none'], settings), [
    "usher run --manifests 'a b' --capture=none",
  ])
})

t.test('of manifests that which changes nothing comes first', async t => {
  for (const args of [['web.yaml'], ['--manifests', 'web.yaml']]) {
    const settings = await runSettings(args, async () => '', 'check')
    const [first, more = ''] = nextOfRun(args, settings)
    t.equal(first, 'usher run --manifests web.yaml --capture listen')
    t.match(more, /as root and without --capture it programs the kernel/)
  }
})
