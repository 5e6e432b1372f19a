import t from 'tap'
import { cleanUp, type Kind } from '../../../src/kernel/cleanup/clean-up.ts'
import { iptablesKind } from '../../../src/kernel/cleanup/iptables.ts'
import { ipsetsKind } from '../../../src/kernel/cleanup/ipvs.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

const missing = (command: string): ToolError =>
  new ToolError(`${command}: not found; install it`, 'missing', '')

const failing = (name: string, error: Error): Kind => ({
  name,
  find: () => Promise.reject(error),
})

/** Something that is there until it is removed, or in spite of it. */
const thing = (name: string, calls: string[], remove?: () => Promise<void>): Kind => {
  let isThere = true
  return {
    name,
    find: async () => ({
      stays: [],
      leftovers: isThere
        ? [
            {
              what: [name],
              remove: async () => {
                calls.push(name)
                if (remove === undefined) isThere = false
                else await remove()
                return []
              },
            },
          ]
        : [],
    }),
  }
}

t.test('kinds are removed in order, and one that fails holds up no other', async t => {
  const calls: string[] = []
  const denied = new ToolError('nft: Operation not permitted', 'not permitted', '')
  const kinds = [
    thing('a', calls),
    thing('b', calls, () => Promise.reject(denied)),
    failing('c', denied),
    thing('d', calls, async () => {}),
    thing('e', calls),
  ]
  t.strictSame(await cleanUp(kinds, { dryRun: false }), {
    gone: ['a', 'e'],
    hidden: [{ what: 'c', reason: 'nft: Operation not permitted' }],
    stayed: [
      { what: 'b', reason: 'nft: Operation not permitted' },
      { what: 'd', reason: 'was removed, and another program put it back at once' },
    ],
    unseen: [],
  })
  t.strictSame(calls, ['a', 'b', 'd', 'e'])
})

t.test('what leads packets goes first, then flows, then what keeps silent', async t => {
  const calls: string[] = []
  const staged = (name: string, stage?: 'leads' | 'flows'): Kind => ({
    name,
    find: async () => ({
      stays: [],
      leftovers: [
        {
          what: stage === 'flows' ? [] : [name],
          ...(stage && { stage }),
          remove: async () => {
            calls.push(name)
            return []
          },
        },
      ],
    }),
  })
  const kinds = [staged('filter'), staged('nat', 'leads'), staged('flows', 'flows')]
  await cleanUp(kinds, { dryRun: true })
  t.strictSame(calls, [])
  await cleanUp(kinds, { dryRun: false })
  t.strictSame(calls, ['nat', 'flows', 'filter'])
})

t.test('a dry run tells the same and removes nothing', async t => {
  const calls: string[] = []
  const outcome = await cleanUp([thing('a', calls)], { dryRun: true })
  t.strictSame(outcome, { gone: ['a'], stayed: [], hidden: [], unseen: [] })
  t.strictSame(calls, [])
})

t.test('a tool or a kernel that lacks the thing is no failure', async t => {
  const lacks = (stderr: string) => new ToolError(`x: ${stderr}`, 'failed', stderr)
  const kinds = [
    failing('ipsets', missing('ipset')),
    failing('nft', lacks('Unable to initialize Netlink socket: Protocol not supported')),
    failing('ip6', lacks("can't initialize ip6tables table `nat': Table does not exist")),
  ]
  t.strictSame(await cleanUp(kinds, { dryRun: false }), {
    gone: [],
    stayed: [],
    hidden: [],
    unseen: ['ipsets: ipset: not found; install it'],
  })
})

t.test('a fault of our own is not taken for an answer', async t => {
  const kinds = [failing('x', new TypeError('oops'))]
  await t.rejects(cleanUp(kinds, { dryRun: false }), { message: 'oops' })
})

t.test('a plain iptables is asked for the back end it has', async t => {
  const save = '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'
  const tools =
    (version: string, calls: string[]): RunTool =>
    async (command, args) => {
      calls.push([command, ...args].join(' '))
      if (command.includes('-nft') || command.includes('-legacy')) throw missing(command)
      if (command === 'cat') return 'filter\nnat\n'
      if (command === 'iptables-restore') return version
      return args.includes('nat') ? save : ''
    }
  const backEnds = async (version: string) => {
    const calls: string[] = []
    const run = tools(version, calls)
    const kinds = (['nft', 'legacy'] as const).map(one => iptablesKind(run, 'IPv4', one))
    const { gone, unseen } = await cleanUp(kinds, { dryRun: true })
    t.ok(calls.includes('iptables-save -t nat'))
    return { gone, unseen: unseen.length }
  }
  const line = (backEnd: string) => `iptables-${backEnd} -t nat: chain KUBE-SERVICES`
  t.strictSame(await backEnds('iptables v1.8.9 (nf_tables)'), {
    gone: [line('nft')],
    unseen: 1,
  })
  t.strictSame(await backEnds('iptables v1.6.1'), { gone: [line('legacy')], unseen: 1 })
})

t.test('a set that is still in use for a moment is tried again', async t => {
  let uses = 3
  const slept: number[] = []
  const run: RunTool = async (_command, [verb]) => {
    if (verb === 'list') return uses < 0 ? '' : 'KUBE-CLUSTER-IP\n'
    uses -= 1
    if (uses >= 0) throw new ToolError('ipset destroy: in use', 'failed', 'in use')
    return ''
  }
  const sleep = async (ms: number): Promise<void> => void slept.push(ms)
  const outcome = await cleanUp([ipsetsKind({ run, sleep })], { dryRun: false })
  t.match(outcome, { gone: ['ipset KUBE-CLUSTER-IP'], stayed: [] })
  t.strictSame(slept, [100, 100, 100])
})
