import t from 'tap'
import { type RunTool, ToolError } from '../../src/kernel/run-tool.ts'
import { launcherWithLess } from '../../src/proxy/own-process.ts'
import {
  isExcessive,
  killOthers,
  netBindService,
  parsePrivileges,
  type Privileges,
  privilegesText,
  setGid,
  setPcap,
  setUid,
} from '../../src/relay/privileges.ts'

const bits = (...numbers: number[]): bigint =>
  numbers.reduce((all, bit) => all | (1n << BigInt(bit)), 0n)

const root = (...capabilities: number[]): Privileges => ({
  uid: 0,
  capabilities: bits(...capabilities),
  noNewPrivileges: false,
})

/** `refuse` says which calls fail, and how. */
const recorder = (refuse: (args: readonly string[]) => ToolError | undefined) => {
  const calls: (readonly string[])[] = []
  const run: RunTool = async (command, args) => {
    calls.push([command, ...args])
    const error = refuse(args)
    if (error !== undefined) throw error
    return ''
  }
  return { calls, run }
}

const allGoes = () => undefined

t.test('root with all its powers: another user, one capability, no others', async t => {
  const { calls, run } = recorder(allGoes)
  const own = root(netBindService, killOthers, setUid, setGid, setPcap, 12)
  t.strictSame(await launcherWithLess(own, run), {
    command: [
      'setpriv',
      '--reuid=2071510256',
      '--regid=2071510256',
      '--clear-groups',
      '--no-new-privs',
      '--pdeathsig=KILL',
      '--inh-caps=-all,+net_bind_service',
      '--ambient-caps=-all,+net_bind_service',
      '--bounding-set=-all,+net_bind_service',
    ],
    reason: '',
  })
  t.match(calls[0]?.join(' '), / test -r \S+data-plane\.js -a -x \S+$/)
})

t.test('an ordinary user keeps nothing, and needs no reason', async t => {
  const { run } = recorder(allGoes)
  const own = { uid: 1000, capabilities: 0n, noNewPrivileges: false }
  const { command, reason } = await launcherWithLess(own, run)
  t.equal(reason, '')
  t.notMatch(command.join(' '), /reuid|bounding/)
  t.match(command.join(' '), '--ambient-caps=-all')
})

t.test('root that may not change users says what it lacks', async t => {
  const { run } = recorder(allGoes)
  for (const own of [
    root(netBindService, 12),
    root(setUid, setGid, netBindService),
    root(setUid, killOthers),
  ]) {
    const { command, reason } = await launcherWithLess(own, run)
    t.notMatch(command.join(' '), /reuid|bounding/)
    t.equal(
      reason,
      'to give it a user of its own takes CAP_SETUID, CAP_SETGID and CAP_KILL',
    )
  }
})

t.test('what another user may not read is run by root, and that is said', async t => {
  const unreadable = new ToolError(
    'setpriv: no error message (exit code 1)',
    'failed',
    '',
  )
  const { calls, run } = recorder(args =>
    args.some(arg => arg.startsWith('--reuid')) ? unreadable : undefined,
  )
  const { command, reason } = await launcherWithLess(
    root(killOthers, setUid, setGid, setPcap),
    run,
  )
  t.equal(calls.length, 2)
  t.notMatch(command.join(' '), 'reuid')
  t.match(command.join(' '), '--bounding-set=-all')
  t.match(reason, /^user 2071510256 may not read \S+data-plane\.js, or not run /)
})

t.test('without setpriv, root is told and an ordinary user is not', async t => {
  const missing = new ToolError('setpriv: not found', 'missing', '')
  const { run } = recorder(() => missing)
  t.strictSame(await launcherWithLess(root(killOthers, setUid, setGid), run), {
    command: [],
    reason:
      'setpriv, which takes them away, is not installed (Debian package util-linux)',
  })
  const user = { uid: 1000, capabilities: 0n, noNewPrivileges: true }
  t.strictSame(await launcherWithLess(user, run), { command: [], reason: '' })
  t.strictSame(await launcherWithLess(undefined, run), { command: [], reason: '' })
})

t.test('privileges are read from what the kernel writes, and told', async t => {
  const status = `Name:\tnode
Uid:\t65532\t65532\t65532\t65532
CapInh:\t0000000000000400
CapPrm:\t0000000000000400
NoNewPrivs:\t1
`
  const one = parsePrivileges(status)
  t.strictSame(one, { uid: 65_532, capabilities: 0x400n, noNewPrivileges: true })
  t.equal(parsePrivileges('Name:\tnode\n'), undefined)
  const text = (some: Partial<Privileges>) => {
    const all = { uid: 1, capabilities: 0n, noNewPrivileges: true, ...some }
    return `${privilegesText(all)} ${isExcessive(all)}`
  }
  t.equal(text({ capabilities: 0x400n }), 'user 1 with CAP_NET_BIND_SERVICE only false')
  t.equal(text({}), 'user 1 with no capabilities false')
  t.equal(text({ uid: 0 }), 'root with no capabilities true')
  t.equal(text({ capabilities: 0x1fffeffffffn }), 'user 1 with 40 capabilities true')
})
